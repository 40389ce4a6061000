"""Encodings against bytes written down by hand from the tables of the specification, and what must be refused."""

import hashlib
import time
import unittest

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from rhumb import certificates, chains, payloads, pdus, rib, transfers
from rhumb.certificates import Certificate, Limits
from rhumb.errors import Malformed, Untrusted
from rhumb.identity import Identity, compressed
from rhumb.metadata import KEY_ED25519, KEY_P256, ROLE_NODE, ROLE_ROUTER, Metadata
from rhumb.names import Name
from rhumb.pdus import Accept, LabelledPdu, Nack, Pdu
from rhumb.published import PublishedNames
from rhumb.reader import Reader
from rhumb.sealed import PathMessage
from rhumb.session import Parameters

# The base point of P-256: the public key of the private key 1.
BASE_POINT = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
A, B = Name(b"\xaa" * 32), Name(b"\xbb" * 32)
A_HEX, B_HEX = "aa" * 32, "bb" * 32
CREATED_S = 1_700_000_000


def metadata_of_base_point(*attributes):
    return Metadata(ROLE_NODE, KEY_P256, bytes.fromhex(BASE_POINT), CREATED_S, attributes)


def u64(number):
    return number.to_bytes(8, "big").hex()


class Strictness(unittest.TestCase):
    def assert_one_encoding(self, encoded, parse, encode):
        """It reads back to the same bytes; shorter and longer ones are refused."""
        self.assertEqual(encode(parse(encoded)), encoded)
        for end in range(len(encoded)):
            with self.assertRaises(Malformed):
                parse(encoded[:end])
        with self.assertRaises(Malformed):
            parse(encoded + b"\0")

    def assert_refused(self, encoded, parse, changes):
        """With any of these bytes changed, it is refused."""
        for position, value in changes:
            bent = bytearray(encoded)
            self.assertNotEqual(bent[position], value)
            bent[position] = value
            with self.assertRaises(Malformed, msg=f"byte {position} as {value}"):
                parse(bytes(bent))


class Paths(Strictness):
    def test_a_path_message_asks_answers_or_both(self):
        for challenge, answer in ((0, 9), (7, 9)):
            encoded = bytes.fromhex(u64(challenge) + u64(answer))
            self.assert_one_encoding(encoded, PathMessage.parse, PathMessage.encode)
        for padding in (0, 1, 1420):
            encoded = bytes.fromhex(u64(7) + u64(0)) + bytes(padding)
            self.assertEqual(PathMessage.parse(encoded).padding, padding)
            self.assertEqual(PathMessage.parse(encoded).encode(), encoded)
            with self.assertRaises(Malformed):
                PathMessage.parse(encoded + b"\1")
        with self.assertRaises(Malformed):
            PathMessage.parse(bytes(16))


class Names(Strictness):
    def test_the_text_of_a_name(self):
        self.assertEqual(str(Name(bytes(32))), "a" * 52)
        self.assertEqual(str(Name(b"\xff" * 32)), "7" * 51 + "q")
        self.assertEqual(Name.from_text("7" * 51 + "q"), Name(b"\xff" * 32))

    def test_other_spellings_are_refused(self):
        for text in ("A" * 52, "a" * 51, "a" * 53, "a" * 51 + "b", "a" * 51 + "=", "a" * 51 + "1", "é" * 52, ""):
            with self.assertRaises(Malformed, msg=text):
                Name.from_text(text)


class MetadataEncoding(Strictness):
    def test_the_bytes_of_metadata(self):
        metadata = metadata_of_base_point(("label", "käse"), ("site", ""))
        expected = f"524d010101{BASE_POINT}{u64(CREATED_S)}02" "056c6162656c" "056bc3a47365" "0473697465" "00"
        self.assertEqual(metadata.encode().hex(), expected)
        self.assertEqual(metadata.name().octets, hashlib.sha256(bytes.fromhex(expected)).digest())
        self.assert_one_encoding(metadata.encode(), Metadata.parse, Metadata.encode)

    def test_what_must_be_refused(self):
        encoded = metadata_of_base_point(("b", "1"), ("c", "2")).encode()
        first_key = len(encoded) - 7
        self.assert_refused(encoded, Metadata.parse, [
            (0, 0), (1, 0), (2, 2), (3, 0), (3, 6), (4, 0), (4, 3),
            (5, 4), (5, 0),
            # Attributes out of order, equal, in capitals, not UTF-8.
            (first_key, ord("d")), (first_key, ord("c")), (first_key, ord("B")), (first_key + 2, 0xFF),
        ])
        off_the_curve = Metadata(ROLE_NODE, KEY_P256, b"\x02" + b"\xff" * 32, CREATED_S)
        nine = tuple((str(n), "") for n in range(9))
        for metadata in (
            off_the_curve,
            metadata_of_base_point(*nine),
            metadata_of_base_point(("", "x")),
            metadata_of_base_point(("k" * 33, "x")),
            metadata_of_base_point(("k", "v" * 65)),
        ):
            with self.assertRaises(Malformed, msg=str(metadata)):
                Metadata.parse(metadata.encode())
        for metadata in (
            metadata_of_base_point(*nine[:8]),
            metadata_of_base_point(("k" * 32, "v" * 64)),
        ):
            self.assertEqual(Metadata.parse(metadata.encode()), metadata)


class CertificateEncoding(Strictness):
    def head(self, type_, scope):
        return f"01{type_:02x}{scope:02x}00" + u64(5) + u64(1000) + u64(2000) + A_HEX

    def check(self, certificate, expected):
        self.assertEqual(certificate.encode().hex(), expected + "00" * 64)
        self.assert_one_encoding(certificate.encode(), Certificate.parse, Certificate.encode)
        self.assertEqual(Certificate.parse(certificate.encode()), certificate)

    def make(self, type_, **content):
        return Certificate(type_, 5, 1000, 2000, A, **content)

    def test_the_bytes_of_every_type(self):
        self.check(self.make(1, subject=B), self.head(1, 0) + B_HEX)
        self.check(self.make(1, subject=B, destination=A), self.head(1, 1) + B_HEX + A_HEX)
        ip4 = "00" * 10 + "ffff" + "c0000201" + "1d24"
        self.check(self.make(2, address=("192.0.2.1", 7460)), self.head(2, 0) + ip4)
        ip6 = "20010db8" + "00" * 11 + "01" + "1d24"
        self.check(self.make(2, address=("2001:db8::1", 7460)), self.head(2, 0) + ip6)
        self.check(self.make(3), self.head(3, 0))
        self.check(self.make(4, subject=B), self.head(4, 0) + B_HEX)
        self.check(self.make(5, subject=B), self.head(5, 0) + B_HEX)
        self.check(self.make(6, subject=B, rights=9), self.head(6, 0) + B_HEX + "00000009" + "00" * 8)
        numbers = "00000009" + "0000000a" + "000007d0"
        inside = Limits(10, 2000, inside_only=True)
        self.check(self.make(6, subject=B, rights=9, limits=inside), self.head(6, 2) + B_HEX + numbers)
        both = Limits(10, 2000, inside_only=True, only_to=A)
        self.check(self.make(6, subject=B, rights=9, limits=both), self.head(6, 3) + B_HEX + numbers + A_HEX)
        self.check(self.make(7, subject=B), self.head(7, 0) + B_HEX)

    def test_the_lengths_that_section_2_states(self):
        lengths = [
            len(self.make(*arguments, **content).encode())
            for arguments, content in (
                ((1,), {"subject": B}),
                ((1,), {"subject": B, "destination": A}),
                ((2,), {"address": ("192.0.2.1", 1)}),
                ((3,), {}),
                ((4,), {"subject": B}),
                ((6,), {"subject": B, "rights": 1}),
                ((6,), {"subject": B, "rights": 1, "limits": Limits(only_to=A)}),
                ((7,), {"subject": B}),
            )
        ]
        self.assertEqual(lengths, [156, 188, 142, 124, 156, 168, 200, 156])

    def test_what_must_be_refused(self):
        route = self.make(1, subject=B).encode()
        # Version, type, scope, the zero byte, and an end before the beginning.
        self.assert_refused(route, Certificate.parse, [(0, 2), (1, 0), (1, 8), (2, 2), (3, 1), (26, 0)])
        member = self.make(6, subject=B, rights=9).encode()
        self.assert_refused(member, Certificate.parse, [(2, 1), (2, 4), (92, 1), (95, 0), (95, 32)])
        self.assert_refused(self.make(3).encode(), Certificate.parse, [(2, 1)])
        for address in (("0.0.0.0", 1), ("::", 1), ("224.0.0.1", 1), ("ff02::1", 1), ("192.0.2.1", 0)):
            with self.assertRaises(Malformed, msg=str(address)):
                Certificate.parse(self.make(2, address=address).encode())

    def test_a_list_has_at_most_eight(self):
        eight = certificates.encode_list([self.make(3)] * 8)
        self.assertEqual(len(certificates.read_list(Reader(eight, "list"))), 8)
        nine = certificates.encode_list([self.make(3)] * 9)
        with self.assertRaises(Malformed):
            certificates.read_list(Reader(nine, "list"))


class PublishedNamesEncoding(Strictness):
    def test_a_list_of_names(self):
        published = PublishedNames(5, 1000, 2000, A, {"door": B, "cam": A})
        head = "01080000" + u64(5) + u64(1000) + u64(2000) + A_HEX
        expected = head + "02" "03" + b"cam".hex() + A_HEX + "04" + b"door".hex() + B_HEX + bytes(64).hex()
        self.assertEqual(published.encode().hex(), expected)
        self.assert_one_encoding(published.encode(), PublishedNames.parse, PublishedNames.encode)
        changes = [(0, 2), (1, 7), (2, 1), (3, 1), (60, 25), (61, 0), (62, 0x43), (62, 0x2e), (62, 0x65)]
        self.assert_refused(published.encode(), PublishedNames.parse, changes)
        with self.assertRaises(Malformed):
            Certificate.parse(published.encode())

    def test_the_owner_signs_and_nobody_else(self):
        owner, other = Identity.generate(), Identity.generate()
        published = PublishedNames(5, 1000, 2000, owner.name, {"door": B}).sign(owner)
        published.verify(owner.metadata, 1500)
        for now_s in (1000 - 61, 2000 + 61):
            with self.assertRaises(Untrusted):
                published.verify(owner.metadata, now_s)
        with self.assertRaises(Untrusted):
            published.verify(other.metadata, 1500)
        month = PublishedNames(5, 0, 30 * 86400, owner.name, {}).sign(owner)
        month.verify(owner.metadata, 1500)
        longer = PublishedNames(5, 0, 30 * 86400 + 1, owner.name, {}).sign(owner)
        withdrawal = Certificate(certificates.WITHDRAWAL, 5, 1000, 2000, owner.name).sign(owner)
        borrowed = PublishedNames(**{**published.__dict__, "signature": withdrawal.signature})
        for bad in (longer, borrowed, PublishedNames(**{**published.__dict__, "sequence": 6})):
            with self.assertRaises(Untrusted):
                bad.verify(owner.metadata, 1500)


class Signatures(unittest.TestCase):
    def test_ed25519_signs_to_the_same_bytes_everywhere(self):
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        issuer = Metadata(ROLE_NODE, KEY_ED25519, public, CREATED_S)
        unsigned = Certificate(certificates.ROUTE, 5, 1000, 2000, issuer.name(), B)
        signature = key.sign(b"rhumb certificate v1\0" + unsigned.encode()[:-64])
        signed = Certificate.parse(unsigned.encode()[:-64] + signature)
        signed.verify(issuer)
        self.assertEqual(hashlib.sha256(signed.encode()).hexdigest(), ED25519_ROUTE_SHA256)

    def test_p256_signs_r_and_s(self):
        identity = Identity(ec.derive_private_key(1, ec.SECP256R1()), metadata_of_base_point())
        self.assertEqual(compressed(identity.key.public_key()).hex(), BASE_POINT)
        certificate = certificates.route(identity, B, 600)
        certificate.verify(identity.metadata)
        encoded = certificate.encode()
        for position in range(4, len(encoded)):
            bent = bytearray(encoded)
            bent[position] ^= 1
            with self.assertRaises((Malformed, Untrusted), msg=str(position)):
                Certificate.parse(bytes(bent)).verify(identity.metadata)

    def test_sequences_never_repeat(self):
        numbers = [certificates.next_sequence() for _ in range(1000)]
        self.assertEqual(numbers, sorted(set(numbers)))


class Chains(unittest.TestCase):
    def setUp(self):
        self.node = Identity.generate()
        self.first, self.second = Identity.generate(ROLE_ROUTER), Identity.generate(ROLE_ROUTER)
        self.metadata = [identity.metadata for identity in (self.node, self.first, self.second)]
        self.now_s = time.time()

    def verify(self, *listed, now_s=None):
        return chains.verify(self.node.name, listed, self.metadata, now_s or self.now_s)

    def route(self, issuer, via, destination=None):
        return certificates.route(issuer, via.name, 600, destination)

    def test_a_chain_of_routes_and_a_locator(self):
        locator = certificates.locator(self.second, ("192.0.2.1", 7460), 300)
        chain = self.verify(self.route(self.node, self.first), self.route(self.first, self.second), locator)
        self.assertEqual(chain.path, (self.first.name, self.second.name))
        self.assertEqual(chain.address, ("192.0.2.1", 7460))
        self.assertEqual(chain.not_after_s, locator.not_after_s)

    def test_a_locator_alone_is_the_way_to_a_router(self):
        chain = self.verify(certificates.locator(self.node, ("192.0.2.1", 7460), 600))
        self.assertEqual((chain.path, chain.address), ((), ("192.0.2.1", 7460)))

    def test_a_service_comes_first_and_a_route_follows(self):
        service = certificates.service(self.node, self.first.name, 600)
        chain = self.verify(service, self.route(self.first, self.second))
        self.assertEqual(chain.path, (self.first.name, self.second.name))
        locator = certificates.locator(self.first, ("192.0.2.1", 1), 600)
        later = certificates.service(self.first, self.second.name, 600)
        for listed in ([service], [service, locator], [self.route(self.node, self.first), later]):
            with self.assertRaises(Untrusted):
                self.verify(*listed)

    def test_what_must_be_refused(self):
        good = self.route(self.node, self.first)
        stranger = Identity.generate()
        signed_by_another = Certificate(**{**good.__dict__, "signature": self.route(stranger, self.first).signature})
        cases = {
            "empty": [],
            "broken": [good, self.route(self.second, self.first)],
            "another origin": [self.route(self.first, self.second)],
            "a withdrawal": [good, certificates.withdrawal(self.first, 600)],
            "a loop": [good, self.route(self.first, self.node)],
            "two destinations": [self.route(self.node, self.first, A), self.route(self.first, self.second, B)],
            "a stranger's signature": [signed_by_another],
            "unknown metadata": [good, self.route(self.first, stranger), self.route(stranger, self.second)],
        }
        for what, listed in cases.items():
            with self.assertRaises(Untrusted, msg=what):
                self.verify(*listed)

    def test_the_window_has_sixty_seconds_at_both_ends(self):
        route = self.route(self.node, self.first)
        for now_s in (route.not_before_s - 60, route.not_after_s + 60):
            self.verify(route, now_s=now_s)
        for now_s in (route.not_before_s - 61, route.not_after_s + 61):
            with self.assertRaises(Untrusted):
                self.verify(route, now_s=now_s)

    def test_the_scope_is_the_narrowest(self):
        chain = self.verify(self.route(self.node, self.first), self.route(self.first, self.second, B))
        self.assertEqual(chain.destination, B)


class PduEncoding(Strictness):
    def test_the_bytes_of_a_pdu(self):
        pdu = Pdu(pdus.DATA, A, B, b"data", 0x01020304)
        self.assertEqual(pdu.encode().hex(), "262a010100400004" "01020304" + A_HEX + B_HEX + "64617461")
        self.assert_one_encoding(pdu.encode(), Pdu.parse, Pdu.encode)
        self.assert_refused(pdu.encode(), pdus.parse, [(0, 0), (1, 0), (2, 2), (3, 0), (3, 13), (4, 4), (4, 3), (4, 1)])

    def test_certificates_follow_the_data(self):
        route = Certificate(certificates.ROUTE, 5, 1000, 2000, A, B)
        pdu = Pdu(pdus.ADVERTISE, A, B, certificates=(route,))
        expected = "262a010501400000" "00000000" + A_HEX + B_HEX + "01" + route.encode().hex()
        self.assertEqual(pdu.encode().hex(), expected)
        self.assert_one_encoding(pdu.encode(), Pdu.parse, Pdu.encode)
        self.assert_refused(pdu.encode(), Pdu.parse, [(76, 0), (76, 9), (4, 0)])

    def test_the_labelled_form(self):
        pdu = LabelledPdu(pdus.PING, 0xAABBCCDD, b"data", 0x01020304, 9)
        self.assertEqual(pdu.encode().hex(), "262a010302090004" "01020304" "aabbccdd" "64617461")
        self.assert_one_encoding(pdu.encode(), pdus.parse, lambda pdu: pdu.encode())
        self.assert_refused(pdu.encode(), pdus.parse, [(3, pdus.PONG), (3, pdus.ADVERTISE), (4, 0), (4, 3)])
        self.assertEqual(pdus.parse_label(pdus.encode_label(7)), 7)
        for data in (b"", b"123", b"12345"):
            with self.assertRaises(Malformed):
                pdus.parse_label(data)

    def test_accept(self):
        accept = Accept(A, 1000, True)
        self.assertEqual(accept.encode().hex(), A_HEX + u64(1000) + "01")
        self.assert_one_encoding(accept.encode(), Accept.parse, Accept.encode)
        self.assert_refused(accept.encode(), Accept.parse, [(40, 2)])

    def test_nack(self):
        self.assertEqual(Nack(pdus.NOT_YET, 50).encode().hex(), "01000032")
        self.assertEqual(Nack(pdus.TTL_EXCEEDED, 0, A).encode().hex(), "04000000" + A_HEX)
        self.assertEqual(Nack.parse(bytes.fromhex("01000032")), Nack(pdus.NOT_YET, 50))
        self.assertEqual(Nack.parse(bytes.fromhex("0c000003")), Nack(pdus.CAPABILITY, pdus.CAPABILITY_REVOKED))
        self.assertEqual(Nack.parse(Nack(pdus.TOO_BIG, 9, A).encode()), Nack(pdus.TOO_BIG, 9, A))
        metadata = metadata_of_base_point()
        with_metadata = Nack(pdus.TTL_EXCEEDED, 0, metadata.name(), metadata)
        self.assertEqual(Nack.parse(with_metadata.encode()), with_metadata)
        for lie in (Nack(pdus.TTL_EXCEEDED, 0, A, metadata), Nack(pdus.NOT_YET, 0, metadata.name(), metadata)):
            with self.assertRaises(Malformed):
                Nack.parse(lie.encode())
        for text in ("00000000", "0c000000", "0c000005", "0d000000", "09000001", "01010000", "010000", "0100003200"):
            with self.assertRaises(Malformed, msg=text):
                Nack.parse(bytes.fromhex(text))

    def test_session_parameters(self):
        self.assertEqual(Parameters(0x1234567, 1472).encode().hex(), "52500101" "01234567" "05c0")
        encoded = Parameters(0x1234567, 1472).encode()
        self.assert_one_encoding(encoded, Parameters.parse, Parameters.encode)
        self.assert_refused(encoded, Parameters.parse, [(0, 0), (2, 2), (3, 2), (4, 0x10)])
        for index, largest in ((0, 1472), (1, 1231)):
            with self.assertRaises(Malformed):
                Parameters.parse(Parameters(index, largest).encode())
        self.assertEqual(Parameters.parse(Parameters(1, 1232).encode()).largest_datagram, 1232)


class RibEncoding(Strictness):
    def test_requests(self):
        for kind in (rib.LOOK_UP_ROUTE, rib.LOOK_UP_METADATA):
            request = rib.Request(kind, 7, A)
            self.assertEqual(request.encode().hex(), f"{kind:02x}00000007" + A_HEX)
            self.assert_one_encoding(request.encode(), rib.Request.parse, rib.Request.encode)
        metadata, withdrawal = metadata_of_base_point(), Certificate(certificates.WITHDRAWAL, 5, 1000, 2000, A)
        publish = rib.Request(rib.PUBLISH, 7, metadata=(metadata,), certificates=(withdrawal,))
        expected = "0300000007" "01" "002f" + metadata.encode().hex() + "01" + withdrawal.encode().hex()
        self.assertEqual(publish.encode().hex(), expected)
        self.assert_one_encoding(publish.encode(), rib.Request.parse, rib.Request.encode)
        self.assert_refused(publish.encode(), rib.Request.parse, [(0, 4), (5, 10)])

    def test_responses(self):
        metadata, absence = metadata_of_base_point(), Certificate(certificates.ABSENCE, 5, 1000, 2000, A, B)
        route = Certificate(certificates.ROUTE, 5, 1000, 2000, A, B)
        found = rib.Response(rib.FOUND, 7, A, (metadata,), (route,))
        self.assertEqual(
            found.encode().hex(),
            "0100000007" + A_HEX + "01002f" + metadata.encode().hex() + "01" + route.encode().hex(),
        )
        absent = rib.Response(rib.ABSENT, 7, certificates=(absence,))
        self.assertEqual(absent.encode().hex(), "0200000007" "01" + absence.encode().hex())
        stored, refused = rib.Response(rib.STORED, 7), rib.Response(rib.REFUSED, 7, refusal=10)
        self.assertEqual(stored.encode().hex(), "0300000007")
        self.assertEqual(refused.encode().hex(), "04000000070a")
        superseded = rib.Response(rib.REFUSED, 7, certificates=(route,), refusal=rib.SUPERSEDED)
        self.assertEqual(superseded.encode().hex(), "0400000007" "07" "01" + route.encode().hex())
        self.assert_refused(superseded.encode(), rib.Response.parse, [(5, 6), (6, 0), (6, 2)])
        store = rib.Response(rib.STORE, 7, store=bytes(range(16)))
        self.assertEqual(store.encode().hex(), "0600000007" + bytes(range(16)).hex())
        for response in (found, absent, stored, refused, superseded, store):
            self.assert_one_encoding(response.encode(), rib.Response.parse, rib.Response.encode)
        self.assert_refused(refused.encode(), rib.Response.parse, [(0, 5), (5, 0), (5, 14)])
        self.assert_refused(absent.encode(), rib.Response.parse, [(5, 0), (7, certificates.ROUTE)])


class PayloadEncoding(Strictness):
    def test_a_datagram(self):
        payload = payloads.Payload(payloads.DATAGRAM, 0x1234, b"hi")
        self.assertEqual(payload.encode().hex(), "01001234" "6869")
        self.assertEqual(payloads.Payload.parse(payload.encode()), payload)
        self.assert_refused(payload.encode(), payloads.Payload.parse, [(0, 0), (0, 3), (0, 5), (1, 1)])

    def test_an_offer_of_a_file(self):
        offer = transfers.Offer(0x0102030405060708, 5, b"\xcc" * 32, "a.b")
        self.assertEqual(offer.encode().hex(), "0102030405060708" + u64(5) + "cc" * 32 + "03612e62")
        self.assertEqual(transfers.Offer.parse(offer.encode()), offer)
        self.assert_one_encoding(offer.encode(), transfers.Offer.parse, lambda offer: offer.encode())

    def test_names_of_files_that_must_not_travel(self):
        for name in ("", ".", "..", "a/b", "a\\b", "a\nb", "\x7f", "\u202e", "x" * 256):
            with self.assertRaises(Malformed, msg=repr(name)):
                transfers.checked_file_name(name.encode())
        self.assertEqual(transfers.checked_file_name("käse".encode()), "käse")
        self.assertEqual(transfers.checked_file_name(b"x" * 255), "x" * 255)


ED25519_ROUTE_SHA256 = "c3c82783ad68c47442eb2aa0fbe53adb7b549817c6b6d0825b6f96d6fe89ccac"

if __name__ == "__main__":
    unittest.main()
