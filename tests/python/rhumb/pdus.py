"""PDUs (section 5), and the data of Accepts, FlowAccepts (section 6) and NACKs (section 7)."""

from dataclasses import dataclass
from typing import Optional, Sequence, Tuple, Union

from . import certificates
from .certificates import Certificate
from .errors import Malformed
from .metadata import Metadata
from .names import NAME_LENGTH, Name
from .reader import Reader

DATA, NACK, PING, PONG, ADVERTISE, ACCEPT, RIB_REQUEST, RIB_RESPONSE, FLOW_ACCEPT = range(1, 10)
GROUP_REQUEST, GROUP_ACCEPT, HEADS = 10, 11, 12

(NOT_YET, UNREACHABLE, TOO_BIG, TTL_EXCEEDED, BAD_CERTIFICATE, NOT_AUTHORISED, UNKNOWN_FLOW, OVERLOADED,
 SUPERSEDED, EXPIRED, NOT_YET_VALID, CAPABILITY) = range(1, 13)
REASONS = {
    NOT_YET: "not yet",
    UNREACHABLE: "unreachable",
    TOO_BIG: "too big",
    TTL_EXCEEDED: "TTL exceeded",
    BAD_CERTIFICATE: "bad certificate",
    NOT_AUTHORISED: "not authorised",
    UNKNOWN_FLOW: "unknown flow",
    OVERLOADED: "overloaded",
    SUPERSEDED: "superseded",
    EXPIRED: "expired",
    NOT_YET_VALID: "not yet valid",
    CAPABILITY: "capability",
}

_REASONS_WITHOUT_VALUE = (
    TTL_EXCEEDED, BAD_CERTIFICATE, NOT_AUTHORISED, UNKNOWN_FLOW, SUPERSEDED, EXPIRED, NOT_YET_VALID
)
# What a NACK of reason "capability" says is wrong with it.
CAPABILITY_MISSING, CAPABILITY_TIME, CAPABILITY_REVOKED, CAPABILITY_REFUSED = range(1, 5)

HEADER_LENGTH = 76
INITIAL_TTL = 64

_MAGIC_AND_VERSION = b"\x26\x2a\x01"
_FLAG_CERTIFICATES, _FLAG_LABELLED = 1, 2
_LABEL_LENGTH = 4


@dataclass(frozen=True)
class Pdu:
    """What travels from name to name."""

    action: int
    source: Name
    destination: Name
    data: bytes = b""
    tag: int = 0
    ttl: int = INITIAL_TTL
    certificates: Tuple[Certificate, ...] = ()

    def encode(self) -> bytes:
        """The PDU as it travels."""
        flags = _FLAG_CERTIFICATES if self.certificates else 0
        parts = [_MAGIC_AND_VERSION, bytes([self.action, flags, self.ttl])]
        parts += [len(self.data).to_bytes(2, "big"), self.tag.to_bytes(4, "big")]
        parts += [self.source.octets, self.destination.octets, self.data]
        if self.certificates:
            parts.append(certificates.encode_list(self.certificates))
        return b"".join(parts)

    @classmethod
    def parse(cls, data: bytes) -> "Pdu":
        """Reads bytes that are exactly one PDU."""
        reader = Reader(data, "PDU")
        reader.expect(_MAGIC_AND_VERSION, "not version 1")
        action, flags, ttl = (reader.integer(1) for _ in range(3))
        if not DATA <= action <= HEADS:
            raise Malformed("PDU: action")
        if flags & ~_FLAG_CERTIFICATES:
            raise Malformed("PDU: flags")
        data_length, tag = reader.integer(2), reader.integer(4)
        source, destination = (Name(reader.take(NAME_LENGTH)) for _ in range(2))
        content = reader.take(data_length)
        carried: Sequence[Certificate] = ()
        if flags & _FLAG_CERTIFICATES:
            carried = certificates.read_list(reader)
            if not carried:
                raise Malformed("PDU: an empty list of certificates")
        reader.end()
        return cls(action, source, destination, content, tag, ttl, tuple(carried))


@dataclass(frozen=True)
class LabelledPdu:
    """A PDU with a label in place of both names, on its way over one session."""

    action: int
    label: int
    data: bytes = b""
    tag: int = 0
    ttl: int = INITIAL_TTL

    def encode(self) -> bytes:
        """The PDU as it travels."""
        parts = [_MAGIC_AND_VERSION, bytes([self.action, _FLAG_LABELLED, self.ttl])]
        parts += [len(self.data).to_bytes(2, "big"), self.tag.to_bytes(4, "big")]
        parts += [encode_label(self.label), self.data]
        return b"".join(parts)

    @classmethod
    def parse(cls, data: bytes) -> "LabelledPdu":
        """Reads bytes that are exactly one PDU in labelled form."""
        reader = Reader(data, "labelled PDU")
        reader.expect(_MAGIC_AND_VERSION, "not version 1")
        action = reader.integer(1)
        if action not in (DATA, NACK, PING):
            raise Malformed("labelled PDU: action")
        reader.expect(bytes([_FLAG_LABELLED]), "flags")
        ttl, data_length, tag = reader.integer(1), reader.integer(2), reader.integer(4)
        label, content = reader.integer(_LABEL_LENGTH), reader.take(data_length)
        reader.end()
        return cls(action, label, content, tag, ttl)


def parse(data: bytes) -> Union[Pdu, LabelledPdu]:
    """Reads bytes that are exactly one PDU in either form."""
    if data[4:5] == bytes([_FLAG_LABELLED]):
        return LabelledPdu.parse(data)
    return Pdu.parse(data)


def encode_label(label: int) -> bytes:
    """The data of a FlowAccept PDU."""
    return label.to_bytes(_LABEL_LENGTH, "big")


def parse_label(data: bytes) -> int:
    """Reads the data of a FlowAccept PDU."""
    reader = Reader(data, "label")
    label = reader.integer(_LABEL_LENGTH)
    reader.end()
    return label


@dataclass(frozen=True)
class Accept:
    """A router's answer to an Advertise: it carries for ``name``, and the RIB knows or does not know yet."""

    name: Name
    until_s: int
    published: bool

    def encode(self) -> bytes:
        """The data of an Accept PDU."""
        return self.name.octets + self.until_s.to_bytes(8, "big") + bytes([self.published])

    @classmethod
    def parse(cls, data: bytes) -> "Accept":
        """Reads the data of an Accept PDU."""
        reader = Reader(data, "accept")
        name, until_s, published = Name(reader.take(NAME_LENGTH)), reader.integer(8), reader.integer(1)
        reader.end()
        if published > 1:
            raise Malformed("accept: published")
        return cls(name, until_s, published == 1)


@dataclass(frozen=True)
class Nack:
    """Why a PDU was not carried. What ``value`` means depends on the reason."""

    reason: int
    value: int = 0
    reporter: Optional[Name] = None
    # The reporter's, where the TTL of a ping ended.
    metadata: Optional[Metadata] = None

    def encode(self) -> bytes:
        """The data of a Nack PDU."""
        reporter = b"" if self.reporter is None else self.reporter.octets
        metadata = b"" if self.metadata is None else self.metadata.encode()
        return bytes([self.reason, 0]) + self.value.to_bytes(2, "big") + reporter + metadata

    @classmethod
    def parse(cls, data: bytes) -> "Nack":
        """Reads the data of a Nack PDU."""
        reader = Reader(data, "NACK")
        reason = reader.integer(1)
        if reason not in REASONS:
            raise Malformed("NACK: reason")
        reader.expect(b"\0", "reserved byte")
        value = reader.integer(2)
        if value and reason in _REASONS_WITHOUT_VALUE:
            raise Malformed("NACK: a value that means nothing")
        if reason == CAPABILITY and not CAPABILITY_MISSING <= value <= CAPABILITY_REFUSED:
            raise Malformed("NACK: an unknown fault of a capability")
        reporter = Name(reader.take(NAME_LENGTH)) if reader.left() else None
        metadata = None
        if reader.left():
            metadata = Metadata.parse(reader.rest())
            if reason != TTL_EXCEEDED or metadata.name() != reporter:
                raise Malformed("NACK: metadata")
        return cls(reason, value, reporter, metadata)

    def __str__(self) -> str:
        return REASONS[self.reason]
