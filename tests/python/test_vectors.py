"""The vectors of docs/vectors, which the Rust suite makes: each is decoded and encoded by this client's own code.

Every form is a class here with the two directions; what the vectors call an error must be refused.
"""

import hashlib
import hmac
import ipaddress
import json
import unittest
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from rhumb import bundles, certificates, chains, log, metadata, payloads, pdus, rib, sealed, transfers
from rhumb.certificates import SIGNATURE_LENGTH, SIGNED_PREFIX, Certificate, Limits
from rhumb.datagrams import DTLS_FIRST_BYTES, Discovery, Initial, Retry
from rhumb.errors import Malformed, RhumbError, Untrusted
from rhumb.groups import GroupAccept, GroupRequest
from rhumb.memberships import Membership
from rhumb.metadata import Metadata
from rhumb.names import Name
from rhumb.payloads import Half, Part, Payload
from rhumb.pdus import Accept, LabelledPdu, Nack, Pdu
from rhumb.published import PublishedNames
from rhumb.reader import Reader
from rhumb.removals import Removal
from rhumb.rib import Lists
from rhumb.session import Parameters
from rhumb.stream import Frame, StreamParameters

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "vectors"
FILES = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))}
ROLES = {"node": 1, "router": 2, "rib": 3, "domain": 4, "capsule": 5}
ALGORITHMS = {"P-256": 1, "Ed25519": 2}
TYPES = {"export": 1, "route": 1, "locator": 2, "withdrawal": 3, "absence": 4, "service": 5, "member": 6, "removal": 7}
RIGHTS = {"join": 1, "carry": 2, "publish": 4, "admit": 8, "serve": 16}
SUBJECTS = {"route": "via", "export": "via", "absence": "subject", "service": "server"}
SUBJECTS.update(member="member", removal="member")


def turned(mapping):
    return {value: key for key, value in mapping.items()}


def name_text(name):
    return None if name is None else str(name)


def optional_name(text):
    return None if text is None else Name.from_text(text)


def limits_fields(limits):
    return {**limits.__dict__, "only_to": name_text(limits.only_to)}


def limits_of(fields):
    return Limits(**{**fields, "only_to": optional_name(fields["only_to"])})


def hexes(items):
    return [item.encode().hex() for item in items]


def certificates_of(texts):
    return tuple(Certificate.parse(bytes.fromhex(text)) for text in texts)


def metadata_of(texts):
    return tuple(Metadata.parse(bytes.fromhex(text)) for text in texts)


def read_all(read, octets):
    reader = Reader(octets, "list")
    items = read(reader)
    reader.end()
    return items


class NameForm:
    def decode(self, octets, _):
        text = str(Name(octets))
        return {"text": text, "short": text[:10]}

    def encode(self, fields):
        return Name.from_text(fields["text"]).octets


class NameTextForm:
    def decode(self, octets, _):
        return Name.from_text(octets.decode())


class MetadataForm:
    def decode(self, octets, given):
        found = Metadata.parse(octets)
        fields = {
            "name": str(found.name()),
            "role": turned(ROLES)[found.role],
            "algorithm": turned(ALGORITHMS)[found.algorithm],
            "key": found.key.hex(),
            "created_s": found.created_s,
            "attributes": [list(pair) for pair in found.attributes],
        }
        if "seed" in given:
            private = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(given["seed"]))
            fields["seed"] = given["seed"]
            fields["key"] = public_bytes(private).hex()
        return fields

    def encode(self, fields):
        attributes = tuple(tuple(pair) for pair in fields["attributes"])
        key = bytes.fromhex(fields["key"])
        role, algorithm = ROLES[fields["role"]], ALGORITHMS[fields["algorithm"]]
        return Metadata(role, algorithm, key, fields["created_s"], attributes).encode()


class MetadataListForm:
    def decode(self, octets, _):
        listed = read_all(rib.read_metadata, octets) if octets else []
        if octets and not listed:
            raise Malformed("metadata list: says that it is empty")
        return {"metadata": hexes(listed)}

    def encode(self, fields):
        return rib.encode_metadata(metadata_of(fields["metadata"])) if fields["metadata"] else b""


class CertificateForm:
    def decode(self, octets, _):
        found = Certificate.parse(octets)
        found.verify(PARTIES[found.issuer])
        fields = {
            "type": "export" if found.is_export else turned(TYPES)[found.type],
            "sequence": found.sequence,
            "not_before_s": found.not_before_s,
            "not_after_s": found.not_after_s,
            "issuer": str(found.issuer),
            "signature": found.signature.hex(),
        }
        if found.subject is not None:
            fields[SUBJECTS[fields["type"]]] = str(found.subject)
        if found.rights is not None:
            fields["rights"] = [name for name, right in RIGHTS.items() if found.rights & right]
        if found.rights is not None:
            fields["limits"] = limits_fields(found.limits)
        if found.destination is not None:
            fields["destination"] = str(found.destination)
        if found.is_export:
            fields["up_to"] = name_text(found.up_to)
        if found.is_one_of_several:
            fields["several"] = True
        if found.address is not None:
            fields["ip"], fields["port"] = found.address
        return fields

    def encode(self, fields):
        subject = fields.get(SUBJECTS.get(fields["type"]))
        rights = sum(RIGHTS[name] for name in fields["rights"]) if "rights" in fields else None
        address = (fields["ip"], fields["port"]) if "ip" in fields else None
        unsigned = Certificate(
            TYPES[fields["type"]],
            fields["sequence"],
            fields["not_before_s"],
            fields["not_after_s"],
            Name.from_text(fields["issuer"]),
            optional_name(subject),
            optional_name(fields.get("destination")),
            fields["type"] == "export",
            optional_name(fields.get("up_to")),
            fields.get("several", False),
            address,
            rights,
            limits_of(fields["limits"]) if "limits" in fields else Limits(),
        )
        statement = unsigned.encode()[:-64]
        private = PRIVATE_KEYS.get(unsigned.issuer)
        if private is None:
            # Of ECDSA, which signs differently each time. `decode` verifies it.
            return statement + bytes.fromhex(fields["signature"])
        return statement + private.sign(b"rhumb certificate v1\0" + statement)


class MembershipForm:
    def decode(self, octets, _):
        found = Membership.parse(octets)
        found.verify(found.member, found.certificates[0].not_before_s)
        return {
            "domain": str(found.domain),
            "member": str(found.member),
            "rights": [name for name, right in RIGHTS.items() if found.rights & right],
            "limits": limits_fields(found.limits),
            "issuers": hexes(found.issuers),
            "certificates": hexes(found.certificates),
        }

    def encode(self, fields):
        return Membership(metadata_of(fields["issuers"]), certificates_of(fields["certificates"])).encode()


class RemovalForm:
    def decode(self, octets, _):
        found = Removal.parse(octets)
        found.verify(found.said.not_before_s)
        return {
            "issuer": str(found.said.issuer),
            "removed": str(found.removed),
            "issuers": hexes(found.issuers),
            "certificates": hexes(found.certificates),
        }

    def encode(self, fields):
        return Removal(metadata_of(fields["issuers"]), certificates_of(fields["certificates"])).encode()


class PublishedNamesForm:
    def decode(self, octets, given):
        found = PublishedNames.parse(octets)
        found.verify(Metadata.parse(bytes.fromhex(given["metadata"])), given["now_s"])
        return {
            "sequence": found.sequence,
            "not_before_s": found.not_before_s,
            "not_after_s": found.not_after_s,
            "owner": str(found.owner),
            "names": {label: str(name) for label, name in found.names.items()},
            "signature": found.signature.hex(),
            "metadata": given["metadata"],
            "now_s": given["now_s"],
        }

    def encode(self, fields):
        return PublishedNames(
            fields["sequence"],
            fields["not_before_s"],
            fields["not_after_s"],
            Name.from_text(fields["owner"]),
            {label: Name.from_text(name) for label, name in fields["names"].items()},
            bytes.fromhex(fields["signature"]),
        ).encode()


class CertificateListForm:
    def decode(self, octets, _):
        listed = read_all(certificates.read_list, octets)
        if not listed:
            raise Malformed("certificates: none")
        return {"certificates": hexes(listed)}

    def encode(self, fields):
        return certificates.encode_list(certificates_of(fields["certificates"]))


class ChainForm:
    def decode(self, octets, given):
        listed = read_all(certificates.read_list, octets)
        # The P-256 issuer takes no part in chains, and whoever is not a party is not known.
        known = [item for item in PARTIES.values() if item.algorithm == metadata.KEY_ED25519]
        chain = chains.verify(Name.from_text(given["origin"]), listed, known, given["now_s"])
        is_served = listed[0].type == certificates.SERVICE
        ip_and_port = None
        if chain.address is not None:
            ip, port = chain.address
            ip_and_port = f"[{ip}]:{port}" if ipaddress.ip_address(ip).version == 6 else f"{ip}:{port}"
        return {
            "origin": str(chain.origin),
            "now_s": given["now_s"],
            "server": str(chain.path[0]) if is_served else None,
            "routers": [str(name) for name in chain.path[1 if is_served else 0:]],
            "locator": ip_and_port,
            "destination": name_text(chain.destination),
            "up_to": [str(name) for name in chain.bounds],
            "exported": chain.exported,
            "not_after_s": chain.not_after_s,
        }


class PduForm:
    def decode(self, octets, _):
        found = pdus.parse(octets)
        if not isinstance(found, Pdu):
            raise Malformed("PDU: labelled")
        return {
            "action": found.action,
            "ttl": found.ttl,
            "tag": found.tag,
            "source": str(found.source),
            "destination": str(found.destination),
            "data": found.data.hex(),
            "certificates": hexes(found.certificates),
        }

    def encode(self, fields):
        return Pdu(
            fields["action"],
            Name.from_text(fields["source"]),
            Name.from_text(fields["destination"]),
            bytes.fromhex(fields["data"]),
            fields["tag"],
            fields["ttl"],
            certificates_of(fields["certificates"]),
        ).encode()


class LabelledPduForm:
    def decode(self, octets, _):
        found = LabelledPdu.parse(octets)
        return {**found.__dict__, "data": found.data.hex()}

    def encode(self, fields):
        return LabelledPdu(**{**fields, "data": bytes.fromhex(fields["data"])}).encode()


class AcceptForm:
    def decode(self, octets, _):
        found = Accept.parse(octets)
        return {**found.__dict__, "name": str(found.name)}

    def encode(self, fields):
        return Accept(**{**fields, "name": Name.from_text(fields["name"])}).encode()


class FlowAcceptForm:
    def decode(self, octets, _):
        return {"label": pdus.parse_label(octets)}

    def encode(self, fields):
        return pdus.encode_label(fields["label"])


class GroupRequestForm:
    def decode(self, octets, _):
        found = GroupRequest.parse(octets)
        return {"kind": found.kind, "lists": found.lists.encode().hex() if found.lists else ""}

    def encode(self, fields):
        lists = bytes.fromhex(fields["lists"])
        return GroupRequest(fields["kind"], Lists.parse(lists) if lists else None).encode()


class GroupAcceptForm:
    def decode(self, octets, _):
        return GroupAccept.parse(octets).__dict__

    def encode(self, fields):
        return GroupAccept(**fields).encode()


class NackForm:
    def decode(self, octets, _):
        found = Nack.parse(octets)
        shown = None if found.metadata is None else found.metadata.encode().hex()
        return {**found.__dict__, "reporter": name_text(found.reporter), "metadata": shown}

    def encode(self, fields):
        own = fields["metadata"] and Metadata.parse(bytes.fromhex(fields["metadata"]))
        return Nack(fields["reason"], fields["value"], optional_name(fields["reporter"]), own).encode()


# Fields of messages that are called otherwise in the client.
RENAMED = {"after": "name", "end": "is_end"}


def offered_fields(domain, offer):
    return {
        "domain": str(domain),
        "cost": offer.cost,
        "ribs": [{"name": str(name), "address": f"{ip}:{port}"} for name, (ip, port) in offer.ribs],
        "metadata": hexes(offer.metadata),
        "certificates": hexes(offer.certificates),
    }


def offered_of(fields):
    def rib_of(one):
        ip, port = one["address"].rsplit(":", 1)
        return Name.from_text(one["name"]), (ip, int(port))

    offer = rib.Offer(
        fields["cost"],
        tuple(rib_of(one) for one in fields["ribs"]),
        metadata_of(fields["metadata"]),
        certificates_of(fields["certificates"]),
    )
    return Name.from_text(fields["domain"]), offer


class RibForm:
    """Requests and responses: fields that a kind does not have are left out."""

    def __init__(self, message, fields_of):
        self.message = message
        self.fields_of = fields_of

    def decode(self, octets, _):
        found = self.message.parse(octets)
        fields = {"kind": found.kind, "identifier": found.identifier}
        for field in self.fields_of.get(found.kind, ()):
            value = getattr(found, RENAMED.get(field, field))
            if field == "offered":
                fields[field] = [offered_fields(domain, offer) for domain, offer in value]
                continue
            if field in ("back", "epochs"):
                fields[field] = [one.hex() if field == "back" else one for one in value]
                continue
            fields[field] = hexes(value) if isinstance(value, tuple) else value
            if isinstance(value, Name):
                fields[field] = str(value)
            if isinstance(value, (PublishedNames, log.Head)):
                fields[field] = value.encode().hex()
            if field == "way":
                fields[field] = log.encode_way(value).hex()
            if isinstance(value, bytes):
                fields[field] = value.hex()
        return fields

    def encode(self, fields):
        read = {
            "name": Name.from_text,
            "store": bytes.fromhex,
            "beginning": bytes.fromhex,
            "metadata": metadata_of,
            "certificates": certificates_of,
            "removals": lambda texts: tuple(rib.Lists.parse(bytes.fromhex(text)) for text in texts),
            "after": Name.from_text,
            "published": lambda text: PublishedNames.parse(bytes.fromhex(text)),
            "end": bool,
            "offered": lambda offered: tuple(offered_of(one) for one in offered),
            "head": lambda text: log.Head.read(Reader(bytes.fromhex(text), "head")),
            "way": lambda text: log.Way.read(Reader(bytes.fromhex(text), "way")),
            "back": lambda texts: tuple(bytes.fromhex(text) for text in texts),
            "epochs": tuple,
        }
        read_fields = {RENAMED.get(key, key): read.get(key, int)(value) for key, value in fields.items()}
        return self.message(**read_fields).encode()


class HeadsForm:
    def decode(self, octets, _):
        heads = log.parse_heads(octets)
        return {"heads": [{
            "epoch": head.epoch,
            "began_ms": head.began_ms,
            "made_ms": head.made_ms,
            "names": head.names,
            "rib": str(head.rib),
            "map": head.map.hex(),
            "history": head.history.hex(),
        } for head in heads]}

    def encode(self, fields):
        heads = []
        for head in fields["heads"]:
            rib_name = Name.from_text(head["rib"])
            hashes = {key: bytes.fromhex(head[key]) for key in ("map", "history")}
            unsigned = log.Head(**{**head, **hashes, "rib": rib_name})
            signature = PRIVATE_KEYS[rib_name].sign(SIGNED_PREFIX + unsigned.encode()[:-SIGNATURE_LENGTH])
            signed = replace(unsigned, signature=signature)
            signed.verify(PARTIES[rib_name], head["made_ms"] / 1000)
            heads.append(signed)
        return log.encode_heads(heads)


class ProofForm:
    """A head, a way through its map, and what that says of a name."""

    def decode(self, octets, given):
        reader = Reader(octets, "proof")
        head, way = log.Head.read(reader), log.Way.read(reader)
        reader.end()
        held = way.held(head, Name.from_text(given["name"]))
        return {"name": given["name"], "held": [one.hex() for one in held]}


class PayloadForm:
    def decode(self, octets, _):
        found = Payload.parse(octets)
        return {**found.__dict__, "body": found.body.hex()}

    def encode(self, fields):
        return Payload(**{**fields, "body": bytes.fromhex(fields["body"])}).encode()


class HalfForm:
    def decode(self, octets, _):
        found = Half.parse(octets)
        return {"is_second": found.is_second, "bytes": found.octets.hex()}

    def encode(self, fields):
        return Half(fields["is_second"], bytes.fromhex(fields["bytes"])).encode()


class OfferForm:
    def decode(self, octets, _):
        found = transfers.Offer.parse(octets)
        sha256 = found.sha256.hex()
        transfer = f"{found.transfer:016x}"
        return {"transfer": transfer, "kind": found.kind, "length": found.length, "sha256": sha256, "name": found.name}

    def encode(self, fields):
        sha256 = bytes.fromhex(fields["sha256"])
        number = int(fields["transfer"], 16)
        return transfers.Offer(number, fields["length"], sha256, fields["name"], fields["kind"]).encode()


class ListingForm:
    def decode(self, octets, _):
        return {"entries": [listed(entry) for entry in transfers.Listing.parse(octets).entries]}

    def encode(self, fields):
        entries = [{**entry, "sha256": bytes.fromhex(entry.get("sha256", ""))} for entry in fields["entries"]]
        return transfers.Listing(tuple(transfers.Entry(**entry) for entry in entries)).encode()


def listed(entry):
    """An entry of a list as the vectors have it."""
    fields = {"path": entry.path, "kind": entry.kind, "length": entry.length}
    return {**fields, "sha256": entry.sha256.hex()} if entry.sha256 else fields


class HeldForm:
    """Of files of 5, 0 and 7 bytes."""

    LENGTHS = (5, 0, 7)

    def decode(self, octets, _):
        found = transfers.Held.parse(octets, self.LENGTHS)
        return {"first": found.first, "there": found.there, "whole": list(found.whole)}

    def encode(self, fields):
        return transfers.Held(fields["first"], fields["there"], tuple(fields["whole"])).encode()


class SealedHeaderForm:
    def decode(self, octets, _):
        type_, index, epoch, number = sealed.read_header(octets + bytes(sealed.TAG_LENGTH))
        return {"type": type_, "index": index, "epoch": epoch, "number": number}

    def encode(self, fields):
        return sealed.encode_header(fields["type"], fields["index"], fields["epoch"], fields["number"])


class PathMessageForm:
    def decode(self, octets, _):
        found = sealed.PathMessage.parse(octets)
        text = [value.to_bytes(8, "big").hex() if value else None for value in (found.challenge, found.answer)]
        return dict(zip(("challenge", "answer", "padding"), text + [found.padding]))

    def encode(self, fields):
        values = [int(fields[field] or "0", 16) for field in ("challenge", "answer")]
        return sealed.PathMessage(*values, padding=fields["padding"]).encode()


class DatagramForm:
    """Any datagram, told apart by its first byte."""

    def decode(self, octets, _):
        first = octets[0] if octets else None
        if first == 0x90:
            return Initial.parse(octets)
        if first == 0xA0:
            return Retry.parse(octets)
        if first is not None and first in DTLS_FIRST_BYTES:
            return octets
        return sealed.read_header(octets)


class InitialForm:
    def decode(self, octets, _):
        found = Initial.parse(octets)
        return {"token": found.token and found.token.hex(), "dtls": found.dtls.hex()}

    def encode(self, fields):
        return Initial(bytes.fromhex(fields["dtls"]), fields["token"] and bytes.fromhex(fields["token"])).encode()


class RetryForm:
    def decode(self, octets, _):
        found = Retry.parse(octets)
        return {"hello": found.hello.hex(), "token": found.token.hex()}

    def encode(self, fields):
        return Retry(bytes.fromhex(fields["hello"]), bytes.fromhex(fields["token"])).encode()


class ParametersForm:
    def decode(self, octets, _):
        return dict(Parameters.parse(octets).__dict__)

    def encode(self, fields):
        return Parameters(**fields).encode()


class StreamParametersForm:
    def decode(self, octets, _):
        return dict(StreamParameters.parse(octets).__dict__)

    def encode(self, fields):
        return StreamParameters(**fields).encode()


class FrameForm:
    def decode(self, octets, _):
        frame = Frame.parse(octets)
        return {"type": frame.kind, "pdu": frame.pdu.hex()}

    def encode(self, fields):
        return Frame(fields["type"], bytes.fromhex(fields["pdu"])).encode()


class BundleForm:
    def decode(self, octets, _):
        return {"pdus": [pdu.hex() for pdu in bundles.parse(octets)]}

    def encode(self, fields):
        return bundles.encode([bytes.fromhex(pdu) for pdu in fields["pdus"]])


class DiscoveryForm:
    def decode(self, octets, _):
        found = Discovery.parse(octets)
        return {"kind": "query" if found.is_query else "answer", "nonce": found.nonce.hex()}

    def encode(self, fields):
        return Discovery(fields["kind"] == "query", bytes.fromhex(fields["nonce"])).encode()


def epoch_secret(fields):
    roots = sealed.roots(bytes.fromhex(fields["exported"]))
    secret = sealed.EpochSecret.first(roots[0 if fields["sender"] == "client" else 1], fields.get("lane", 0))
    for _ in range(fields.get("epoch", 0)):
        secret = secret.next()
    return secret


class EpochKeysForm:
    def decode(self, octets, given):
        fields = {**given, "secret": epoch_secret(given).secret.hex()}
        return {**fields, "key": octets[:32].hex(), "salt": octets[32:].hex()}

    def encode(self, fields):
        keys = epoch_secret(fields).keys()
        return keys.key + keys.salt


class SealedRecordForm:
    def decode(self, octets, given):
        roots = sealed.roots(bytes.fromhex(given["exported"]))
        opener = sealed.Opener(roots[0 if given["sender"] == "client" else 1], 0x1234567)
        opened = opener.open(octets)
        if opened is None:
            raise Untrusted("sealed record")
        type_, index, epoch, number = sealed.read_header(octets)
        keys = epoch_secret({**given, "epoch": epoch}).keys()
        header = octets[:sealed.HEADER_LENGTH]
        return {
            "exported": given["exported"],
            "sender": given["sender"],
            "type": type_,
            "index": index,
            "epoch": epoch,
            "number": number,
            "nonce": keys.nonce(header).hex(),
            "associated_data": header.hex(),
            "plaintext": opened[1].hex(),
        }

    def encode(self, fields):
        header = sealed.encode_header(fields["type"], fields["index"], fields["epoch"], fields["number"])
        return epoch_secret(fields).keys().seal(header, bytes.fromhex(fields["plaintext"]))


class RecordOfAConnectionForm:
    def keys(self, fields):
        secret = epoch_secret({**fields, "exported": fields["exported"][: 2 * sealed.EXPORTED_LENGTH]})
        keys = secret.keys()
        return sealed.EpochKeys(keys.key[:16], keys.salt)

    def encode(self, fields):
        indices = bytes.fromhex(fields["exported"])[sealed.EXPORTED_LENGTH :]
        index = indices[:4] if fields["sender"] == "client" else indices[4:]
        index = int.from_bytes(index, "big") & sealed.MOST_INDEX
        header = sealed.encode_header(sealed.TYPE_PDU, index, fields["epoch"], fields["number"])
        return self.keys(fields).seal(header, bytes.fromhex(fields["plaintext"]))

    def decode(self, octets, given):
        type_, index, epoch, number = sealed.read_header(octets)
        plaintext = self.keys({**given, "epoch": epoch}).open(octets)
        if plaintext is None or type_ != sealed.TYPE_PDU:
            raise Untrusted("record of a connection")
        return {**given, "index": index, "epoch": epoch, "number": number, "plaintext": plaintext.hex()}


class PartForm:
    def decode(self, octets, _):
        found = Part.parse(octets)
        return {**found.__dict__, "octets": found.octets.hex(), "headers": found.headers.hex()}

    def encode(self, fields):
        octets, headers = bytes.fromhex(fields["octets"]), bytes.fromhex(fields["headers"])
        return Part(**{**fields, "octets": octets, "headers": headers}).encode()


class RetryTokenForm:
    """Opaque to an initiator; a responder may make them in this way."""

    def encode(self, fields):
        ip = ipaddress.ip_address(fields["ip"])
        octets = ip.packed if ip.version == 6 else ipaddress.IPv6Address(f"::ffff:{ip}").packed
        time_s = fields["time_s"].to_bytes(8, "big")
        hello = hashlib.sha256(bytes.fromhex(fields["dtls"])[13:]).digest()
        message = time_s + octets + fields["port"].to_bytes(2, "big") + hello
        return time_s + hmac.digest(bytes.fromhex(fields["key"]), message, "sha256")[:16]


def public_bytes(private):
    return private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


FORMS = {
    "name": NameForm(),
    "name text": NameTextForm(),
    "metadata": MetadataForm(),
    "metadata list": MetadataListForm(),
    "certificate": CertificateForm(),
    "certificate list": CertificateListForm(),
    "published names": PublishedNamesForm(),
    "membership": MembershipForm(),
    "removal": RemovalForm(),
    "chain": ChainForm(),
    "PDU": PduForm(),
    "labelled PDU": LabelledPduForm(),
    "Accept": AcceptForm(),
    "FlowAccept": FlowAcceptForm(),
    "GroupRequest": GroupRequestForm(),
    "GroupAccept": GroupAcceptForm(),
    "Nack": NackForm(),
    "RIB request": RibForm(rib.Request, {
        rib.LOOK_UP_ROUTE: ("name",),
        rib.LOOK_UP_METADATA: ("name",),
        rib.LOOK_UP_EXPORT: ("name",),
        rib.PUBLISH: ("metadata", "certificates"),
        rib.GONE: ("name", "sequence"),
        rib.REMOVALS_SINCE: ("store", "position"),
        rib.LOOK_UP_WAY: ("name", "number"),
        rib.ASK_DOMAINS: ("revision", "after"),
        rib.LOOK_UP_ADDRESS: ("beginning",),
        rib.PUBLISH_NAMES: ("metadata", "published"),
        rib.LOOK_UP_NAMES: ("name",),
        rib.PROVE: ("name",),
        rib.ASK_WAY_BACK: ("began_ms", "epochs"),
    }),
    "RIB response": RibForm(rib.Response, {
        rib.FOUND: ("name", "metadata", "certificates"),
        rib.ABSENT: ("certificates",),
        rib.REFUSED: ("refusal", "certificates"),
        rib.CHANGED: ("name", "metadata", "certificates"),
        rib.FOUND_BEYOND: ("name", "level", "metadata", "certificates"),
        rib.CHANGED_BEYOND: ("name", "level", "metadata", "certificates"),
        rib.STORE: ("store",),
        rib.REMOVALS: ("store", "position", "removals"),
        rib.DOMAINS: ("revision", "end", "offered"),
        rib.NAMES: ("metadata", "published"),
        rib.PROOF: ("head", "way"),
        rib.WAY_BACK: ("back",),
    }),
    "heads": HeadsForm(),
    "proof": ProofForm(),
    "half": HalfForm(),
    "payload": PayloadForm(),
    "offer": OfferForm(),
    "list of a folder": ListingForm(),
    "files that are there": HeldForm(),
    "sealed header": SealedHeaderForm(),
    "sealed datagram": DatagramForm(),
    "datagram": DatagramForm(),
    "initial": InitialForm(),
    "retry": RetryForm(),
    "session parameters": ParametersForm(),
    "path message": PathMessageForm(),
    "stream parameters": StreamParametersForm(),
    "frame": FrameForm(),
    "bundle": BundleForm(),
    "discovery": DiscoveryForm(),
    "epoch keys": EpochKeysForm(),
    "sealed record": SealedRecordForm(),
    "record of a connection": RecordOfAConnectionForm(),
    "part of a run": PartForm(),
    "retry token": RetryTokenForm(),
}

# Whoever has metadata among the vectors, and the private keys of those whose seed is there.
PARTIES = {}
PRIVATE_KEYS = {}
for _vector in FILES["names"]:
    if _vector["form"] == "metadata" and "error" not in _vector:
        _metadata = Metadata.parse(bytes.fromhex(_vector["hex"]))
        PARTIES[_metadata.name()] = _metadata
        if "seed" in _vector["fields"]:
            _seed = bytes.fromhex(_vector["fields"]["seed"])
            PRIVATE_KEYS[_metadata.name()] = ed25519.Ed25519PrivateKey.from_private_bytes(_seed)


class Vectors(unittest.TestCase):
    # What fails shows bytes and fields in full.
    maxDiff = None

    def test_every_form_of_the_specification_has_vectors(self):
        good = {vector["form"] for vectors in FILES.values() for vector in vectors if "error" not in vector}
        self.assertEqual(good | {"name text", "sealed datagram", "datagram"}, set(FORMS))

    def check(self, file):
        vectors = FILES[file]
        self.assertTrue(vectors)
        for vector in vectors:
            title = f"section {vector['section']}, {vector['form']}: {vector['name']}"
            form, octets = FORMS[vector["form"]], bytes.fromhex(vector["hex"])
            with self.subTest(title):
                if "error" in vector:
                    with self.assertRaises(RhumbError):
                        form.decode(octets, vector.get("fields", {}))
                    continue
                if hasattr(form, "decode"):
                    self.assertEqual(form.decode(octets, vector["fields"]), vector["fields"])
                if hasattr(form, "encode"):
                    self.assertEqual(form.encode(vector["fields"]).hex(), vector["hex"])


def _test_of(file):
    return lambda self: self.check(file)


for _file in FILES:
    setattr(Vectors, f"test_{_file}", _test_of(_file))

if __name__ == "__main__":
    unittest.main()
