"""What the real RIB and routers refuse a client that lies."""

import time
import unittest
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric import ec

from network import Network
from rhumb import certificates, pdus, sealed
from rhumb.dtls.client12 import Client12
from rhumb.errors import HandshakeFailed, Refused, Untrusted
from rhumb.identity import Identity, self_signed
from rhumb.node import Node, RibClient
from rhumb.pdus import Pdu
from rhumb.session import Session
from test_with_the_binary import wait

# Long enough for an answer on loopback; nothing should come.
SILENCE_S = 1.5


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network()
        cls.addClassCleanup(cls.network.end)

    def join(self, router=None):
        router = router or self.network.near
        node = Node.join(router.address, Identity.generate(), router.name)
        self.addCleanup(node.close)
        return node

    def stranger(self):
        """A node with a session that has not joined."""
        identity = Identity.generate()
        node = Node(Session.connect(self.network.near.address, identity, self.network.near.name), identity)
        self.addCleanup(node.close)
        return node

    def look_up(self, name):
        rib = RibClient.connect(self.network.rib.address, Identity.generate(), self.network.rib.name)
        self.addCleanup(rib.close)
        return rib.look_up(name)

    def assert_chain_is_refused(self, *chain, why="bad certificate"):
        node = self.stranger()
        with self.assertRaisesRegex(Refused, why):
            node.advertise(chain=[certificate(node) for certificate in chain])
        self.assertIsNone(self.look_up(node.name))
        # The honest chain is still welcome: refusing is about the certificate, not about the name.
        node.advertise()

    def test_a_certificate_signed_with_another_key(self):
        def forged(node):
            honest = certificates.route(node.identity, node.router, 600)
            return replace(honest, signature=certificates.route(Identity.generate(), node.router, 600).signature)

        self.assert_chain_is_refused(forged)

    def test_a_certificate_with_a_longer_life_than_was_signed(self):
        def stretched(node):
            honest = certificates.route(node.identity, node.router, 600)
            return replace(honest, not_after_s=honest.not_after_s + 60)

        self.assert_chain_is_refused(stretched)

    def test_a_certificate_that_is_over(self):
        def expired(node):
            honest = certificates.route(node.identity, node.router, 600)
            return replace(honest, not_before_s=honest.not_before_s - 900, not_after_s=honest.not_before_s - 300) \
                .sign(node.identity)

        self.assert_chain_is_refused(expired, why="expired")

    def test_a_certificate_that_has_not_begun(self):
        def early(node):
            honest = certificates.route(node.identity, node.router, 600)
            return replace(honest, not_before_s=honest.not_before_s + 300, not_after_s=honest.not_before_s + 600) \
                .sign(node.identity)

        self.assert_chain_is_refused(early, why="not yet valid")

    def test_a_certificate_for_another_router(self):
        self.assert_chain_is_refused(lambda node: certificates.route(node.identity, self.network.far.name, 600))

    def test_the_name_of_somebody_else(self):
        victim, thief = self.join(self.network.far), self.stranger()
        before = self.look_up(victim.name)
        forged = replace(certificates.route(thief.identity, thief.router, 600), issuer=victim.name)
        claim = Pdu(pdus.ADVERTISE, victim.name, thief.router, tag=1, certificates=(forged.sign(thief.identity),))
        accepted = exchange(thief, claim, lambda pdu: pdu.action == pdus.ACCEPT)
        self.assertIsNone(accepted)
        self.assertEqual(self.look_up(victim.name), before)

    def test_the_honest_certificate_of_somebody_else(self):
        victim, thief = self.join(), self.stranger()
        overheard = certificates.route(victim.identity, victim.router, 600)
        data = Pdu(
            pdus.DATA, victim.name, self.join(self.network.far).name, bytes(100), 1, certificates=(overheard,)
        )
        nack = exchange(thief, data, lambda pdu: pdu.action == pdus.NACK)
        self.assertIn(pdus.Nack.parse(nack.data).reason, (pdus.NOT_AUTHORISED, pdus.BAD_CERTIFICATE))

    def test_data_in_the_name_of_somebody_else(self):
        victim, thief, receiver = self.join(), self.join(), self.join(self.network.far)
        forged = Pdu(pdus.DATA, victim.name, receiver.name, b"\1\0\0\0" + bytes(100), 1)
        nack = exchange(thief, forged, lambda pdu: pdu.action == pdus.NACK)
        self.assertEqual(pdus.Nack.parse(nack.data).reason, pdus.NOT_AUTHORISED)
        self.assertIsNone(receiver.poll(SILENCE_S))
        victim.send_text(receiver.name, 0, "this is me")
        self.assertEqual(wait(victim, lambda: receiver.poll(0.02)).source, victim.name)

    def test_data_without_having_joined(self):
        node, receiver = self.stranger(), self.join()
        node.send_text(receiver.name, 0, "x" * 40)
        nack = wait(node, lambda: node.nacks[0] if node.nacks else None)
        self.assertEqual((nack.reason, nack.reporter), (pdus.NOT_AUTHORISED, self.network.near.name))
        self.assertIsNone(receiver.poll(SILENCE_S))

    def test_orders_to_the_rib(self):
        owner, thief = Identity.generate(), Identity.generate()
        router = Identity.generate(role=2)
        rib = RibClient.connect(self.network.rib.address, owner, self.network.rib.name)
        self.addCleanup(rib.close)
        honest = certificates.route(owner, router.name, 600)
        past = replace(honest, not_before_s=1000, not_after_s=2000).sign(owner)
        future_s = int(time.time()) + 1000
        future = replace(honest, not_before_s=future_s, not_after_s=future_s + 600).sign(owner)
        everybody = [owner.metadata, router.metadata]
        for why, metadata, certificate in (
            ("bad signature", everybody, replace(honest, signature=thief.sign(b"")) ),
            ("unknown issuer", [router.metadata], honest),
            ("expired", everybody, past),
            ("not yet valid", everybody, future),
        ):
            with self.subTest(why), self.assertRaisesRegex(Refused, why):
                rib.publish(metadata, [certificate])
        self.assertIsNone(rib.look_up(owner.name))

    def test_the_metadata_of_somebody_else_in_the_handshake(self):
        victim, thief = self.join(), Identity.generate()
        lie = self_signed(thief.key, victim.identity.metadata.encode())
        self.assert_no_session(lie, thief.key)

    def test_a_certificate_without_metadata_in_the_handshake(self):
        key = ec.generate_private_key(ec.SECP256R1())
        self.assert_no_session(self_signed(key, b"not metadata"), key)

    def assert_no_session(self, certificate, key):
        names_before = self.session_names()
        with self.assertRaises(HandshakeFailed):
            Session.connect(
                self.network.near.address, Identity.generate(), client=Client12(key, certificate), deadline_s=SILENCE_S
            )
        self.assertEqual(self.session_names(), names_before)

    def session_names(self):
        return {session["peer"] for session in self.network.near.status()["sessions"]}

    def test_another_router_than_expected(self):
        with self.assertRaises(Untrusted):
            Session.connect(self.network.near.address, Identity.generate(), self.network.far.name)

    def test_a_datagram_that_is_repeated(self):
        node = self.join()
        pong_count = 0
        ping = Pdu(pdus.PING, node.name, self.network.near.name, b"once only", 1)
        datagram = node.session.sealer.seal(sealed.TYPE_PDU, ping.encode(), time.monotonic())
        for _ in range(5):
            node.session.write(datagram)
        until = time.monotonic() + SILENCE_S
        while (left_s := until - time.monotonic()) > 0:
            data = node.session.receive(left_s)
            pong_count += data is not None and Pdu.parse(data).action == pdus.PONG
        self.assertEqual(pong_count, 1)
        self.assertEqual(self.network.near.status()["dropped_datagrams"]["replayed"], 4)

    def test_noise_does_no_harm(self):
        node = self.join()
        sealed_datagram = node.session.sealer.seal(sealed.TYPE_PDU, b"not a PDU", time.monotonic())
        bent = sealed_datagram[:-1] + bytes([sealed_datagram[-1] ^ 1])
        for datagram in (b"", b"\0", b"\x80", b"\x90\0\0\1", bytes([0x90]) * 40, bent, sealed_datagram, bytes(1400)):
            node.session.write(datagram)
        node.ping(self.network.near.name)


def exchange(node, pdu, is_awaited):
    """Sends a PDU as it is, and returns the first awaited answer, if any comes."""
    node.session.send(pdu.encode())
    until = time.monotonic() + SILENCE_S
    while (left_s := until - time.monotonic()) > 0:
        data = node.session.receive(left_s)
        if data is not None and is_awaited(Pdu.parse(data)):
            return Pdu.parse(data)
    return None


if __name__ == "__main__":
    unittest.main()
