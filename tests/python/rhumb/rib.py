"""Questions to a RIB and its answers (section 8)."""

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from . import certificates
from .certificates import ABSENCE, Address, Certificate, encode_address, read_address
from .errors import Malformed
from .log import HASH_LENGTH, MOST_WAY_BACK, Head, Way, encode_way
from .metadata import Metadata
from .names import NAME_LENGTH, Name
from .published import PublishedNames
from .reader import Reader

LOOK_UP_ROUTE, LOOK_UP_METADATA, PUBLISH, ACKNOWLEDGE, WHICH_STORE, GONE = 1, 2, 3, 4, 5, 6
LOOK_UP_EXPORT, REMOVALS_SINCE, LOOK_UP_WAY, ASK_DOMAINS, LOOK_UP_ADDRESS = 7, 8, 9, 10, 11
PUBLISH_NAMES, LOOK_UP_NAMES, PROVE, ASK_WAY_BACK = 12, 13, 14, 15
FOUND, ABSENT, STORED, REFUSED, CHANGED, STORE = 1, 2, 3, 4, 5, 6
FOUND_BEYOND, CHANGED_BEYOND, REMOVALS, DOMAINS, NAMES, PROOF, WAY_BACK = 7, 8, 9, 10, 11, 12, 13

# Most ways to one name.
MOST_WAYS = 8
# What an address holds of a name.
ADDRESS_LENGTH = 15
STORE_LENGTH = 16

SUPERSEDED = 7

REFUSALS = {
    1: "malformed",
    2: "unknown issuer",
    3: "bad signature",
    4: "expired",
    5: "not yet valid",
    6: "lifetime too long",
    7: "superseded",
    8: "not publishable",
    9: "quota exceeded",
    10: "store failed",
    11: "not authorised",
    12: "overloaded",
    13: "no log",
}

_MOST_METADATA = 9
_MOST_LEVELS = 8
_MOST_REMOVALS = 8
_MOST_OFFERED = 16
_MOST_RIBS = 2
_OFFER_VERSION = 1
# What has a chain from a name outward.
_CHAINS = (FOUND, CHANGED, FOUND_BEYOND, CHANGED_BEYOND)


@dataclass(frozen=True)
class Lists:
    """Certificates and their issuers' metadata: a removal as it travels."""

    metadata: Tuple[Metadata, ...]
    certificates: Tuple[Certificate, ...]

    def encode(self) -> bytes:
        """Both lists."""
        return encode_metadata(self.metadata) + certificates.encode_list(self.certificates)

    @classmethod
    def read(cls, reader: Reader) -> "Lists":
        """Reads both lists, of which the second is not empty."""
        lists = cls(tuple(read_metadata(reader)), tuple(certificates.read_list(reader)))
        if not lists.certificates:
            raise Malformed("removal: of no certificate")
        return lists

    @classmethod
    def parse(cls, data: bytes) -> "Lists":
        """Reads bytes that are exactly both."""
        reader = Reader(data, "removal")
        lists = cls.read(reader)
        reader.end()
        return lists


@dataclass(frozen=True)
class Offer:
    """That a domain is reached by the neighbour that says so. Nothing in it is verified yet."""

    cost: int
    ribs: Tuple[Tuple[Name, Address], ...]
    metadata: Tuple[Metadata, ...]
    certificates: Tuple[Certificate, ...]

    def encode(self) -> bytes:
        """The offer as it travels."""
        head = bytes([_OFFER_VERSION]) + self.cost.to_bytes(4, "big") + bytes([len(self.ribs)])
        ribs = b"".join(name.octets + encode_address(address) for name, address in self.ribs)
        return head + ribs + encode_metadata(self.metadata) + certificates.encode_list(self.certificates)

    @classmethod
    def parse(cls, data: bytes) -> "Offer":
        """Reads bytes that are exactly one."""
        reader = Reader(data, "offer")
        reader.expect(bytes([_OFFER_VERSION]), "offer version")
        cost, count = reader.integer(4), reader.integer(1)
        if count > _MOST_RIBS:
            raise Malformed("offer: RIBs")
        ribs = tuple((Name(reader.take(NAME_LENGTH)), read_address(reader)) for _ in range(count))
        metadata = tuple(read_metadata(reader))
        offer = cls(cost, ribs, metadata, tuple(certificates.read_list(reader)))
        reader.end()
        return offer


def _encode_offered(offered: Sequence[Tuple[Name, Offer]]) -> bytes:
    parts = [bytes([len(offered)])]
    for domain, offer in offered:
        data = offer.encode()
        parts += [domain.octets, len(data).to_bytes(2, "big"), data]
    return b"".join(parts)


def _read_offered(reader: Reader) -> Tuple[Tuple[Name, Offer], ...]:
    count = reader.integer(1)
    if count > _MOST_OFFERED:
        raise Malformed("RIB response: offers")
    offered = []
    for _ in range(count):
        domain = Name(reader.take(NAME_LENGTH))
        offered.append((domain, Offer.parse(reader.take(reader.integer(2)))))
    octets = [domain.octets for domain, _ in offered]
    if octets != sorted(set(octets)):
        raise Malformed("RIB response: offers out of order")
    return tuple(offered)


@dataclass(frozen=True)
class Request:
    """A question, an order or an acknowledgement. ``name`` is for look-ups, the lists are for publishing."""

    kind: int
    identifier: int
    name: Name = Name(bytes(NAME_LENGTH))
    metadata: Tuple[Metadata, ...] = ()
    certificates: Tuple[Certificate, ...] = ()
    # Of the route whose name is gone.
    sequence: int = 0
    # The store whose removals the last answer was of, and how far that went.
    store: bytes = bytes(STORE_LENGTH)
    position: int = 0
    # Of the way that is asked for.
    number: int = 0
    # Of what is offered, behind the domain of this name.
    revision: int = 0
    # Of the name whose address is looked for.
    beginning: bytes = bytes(ADDRESS_LENGTH)
    # What an owner publishes under its own name.
    published: Optional[PublishedNames] = None
    # Which log, and which two of its heads.
    began_ms: int = 0
    epochs: Tuple[int, int] = (0, 0)

    def encode(self) -> bytes:
        """The data of a RibRequest PDU."""
        header = bytes([self.kind]) + self.identifier.to_bytes(4, "big")
        if self.kind == PUBLISH:
            return header + encode_metadata(self.metadata) + certificates.encode_list(self.certificates)
        if self.kind == PUBLISH_NAMES and self.published is not None:
            return header + encode_metadata(self.metadata) + self.published.encode()
        if self.kind in (ACKNOWLEDGE, WHICH_STORE):
            return header
        if self.kind == REMOVALS_SINCE:
            return header + self.store + self.position.to_bytes(8, "big")
        if self.kind == ASK_DOMAINS:
            return header + self.revision.to_bytes(8, "big") + self.name.octets
        if self.kind == GONE:
            return header + self.name.octets + self.sequence.to_bytes(8, "big")
        if self.kind == LOOK_UP_WAY:
            return header + self.name.octets + bytes([self.number])
        if self.kind == LOOK_UP_ADDRESS:
            return header + self.beginning
        if self.kind == ASK_WAY_BACK:
            return header + b"".join(number.to_bytes(8, "big") for number in (self.began_ms, *self.epochs))
        return header + self.name.octets

    @classmethod
    def parse(cls, data: bytes) -> "Request":
        """Reads the data of a RibRequest PDU."""
        reader = Reader(data, "RIB request")
        kind, identifier = reader.integer(1), reader.integer(4)
        if kind in (LOOK_UP_ROUTE, LOOK_UP_METADATA, LOOK_UP_EXPORT, LOOK_UP_NAMES, PROVE):
            request = cls(kind, identifier, Name(reader.take(NAME_LENGTH)))
        elif kind == PUBLISH:
            listed = tuple(read_metadata(reader))
            request = cls(kind, identifier, metadata=listed, certificates=tuple(certificates.read_list(reader)))
        elif kind == PUBLISH_NAMES:
            listed = tuple(read_metadata(reader))
            request = cls(kind, identifier, metadata=listed, published=PublishedNames.read(reader))
        elif kind in (ACKNOWLEDGE, WHICH_STORE):
            request = cls(kind, identifier)
        elif kind == LOOK_UP_WAY:
            request = cls(kind, identifier, Name(reader.take(NAME_LENGTH)), number=reader.integer(1))
            if not 1 <= request.number < MOST_WAYS:
                raise Malformed("RIB request: way")
        elif kind == LOOK_UP_ADDRESS:
            request = cls(kind, identifier, beginning=reader.take(ADDRESS_LENGTH))
        elif kind == GONE:
            request = cls(kind, identifier, Name(reader.take(NAME_LENGTH)), sequence=reader.integer(8))
        elif kind == REMOVALS_SINCE:
            request = cls(kind, identifier, store=reader.take(STORE_LENGTH), position=reader.integer(8))
        elif kind == ASK_DOMAINS:
            revision = reader.integer(8)
            request = cls(kind, identifier, Name(reader.take(NAME_LENGTH)), revision=revision)
        elif kind == ASK_WAY_BACK:
            began_ms, earlier, later = (reader.integer(8) for _ in range(3))
            if earlier >= later:
                raise Malformed("RIB request: epochs")
            request = cls(kind, identifier, began_ms=began_ms, epochs=(earlier, later))
        else:
            raise Malformed("RIB request: kind")
        reader.end()
        return request


@dataclass(frozen=True)
class Response:
    """An answer, or a change that the RIB tells of. Which fields it has depends on its kind."""

    kind: int
    identifier: int
    name: Name = Name(bytes(NAME_LENGTH))
    metadata: Tuple[Metadata, ...] = ()
    # The chain that was found, the one absence, or the newer statement by which an order is superseded.
    certificates: Tuple[Certificate, ...] = ()
    refusal: int = 0
    # Which store the RIB has.
    store: bytes = b""
    # How many domains further out it was found.
    level: int = 0
    # How far into the store's removals these go, and these.
    position: int = 0
    removals: Tuple[Lists, ...] = ()
    # What is offered to a neighbour, as of which revision, and whether nothing follows.
    revision: int = 0
    is_end: bool = False
    offered: Tuple[Tuple[Name, Offer], ...] = ()
    # What an owner publishes under its own name.
    published: Optional[PublishedNames] = None
    # What the RIB's log says, and the way to a name, if there is one to tell.
    head: Optional[Head] = None
    way: Optional[Way] = None
    # From one head of it to an earlier one.
    back: Tuple[bytes, ...] = ()

    def encode(self) -> bytes:
        """The data of a RibResponse PDU."""
        data = bytes([self.kind]) + self.identifier.to_bytes(4, "big")
        if self.kind in (FOUND_BEYOND, CHANGED_BEYOND):
            data += bytes([self.level])
        if self.kind in _CHAINS:
            data += self.name.octets + encode_metadata(self.metadata)
        if self.kind in (ABSENT, *_CHAINS):
            data += certificates.encode_list(self.certificates)
        if self.kind == REFUSED:
            data += bytes([self.refusal])
            if self.refusal == SUPERSEDED:
                data += certificates.encode_list(self.certificates)
        if self.kind == DOMAINS:
            data += self.revision.to_bytes(8, "big") + bytes([self.is_end]) + _encode_offered(self.offered)
        if self.kind == NAMES and self.published is not None:
            data += encode_metadata(self.metadata) + self.published.encode()
        if self.kind == PROOF and self.head is not None:
            data += self.head.encode() + encode_way(self.way)
        if self.kind == WAY_BACK:
            data += bytes([len(self.back)]) + b"".join(self.back)
        data += self.store
        if self.kind == REMOVALS:
            data += self.position.to_bytes(8, "big") + bytes([len(self.removals)])
            data += b"".join(removal.encode() for removal in self.removals)
        return data

    @classmethod
    def parse(cls, data: bytes) -> "Response":
        """Reads the data of a RibResponse PDU. Nothing in it is verified yet."""
        reader = Reader(data, "RIB response")
        kind, identifier = reader.integer(1), reader.integer(4)
        if kind in _CHAINS:
            level = reader.integer(1) if kind in (FOUND_BEYOND, CHANGED_BEYOND) else 0
            if kind in (FOUND_BEYOND, CHANGED_BEYOND) and not 1 <= level <= _MOST_LEVELS:
                raise Malformed("RIB response: level")
            name, metadata = Name(reader.take(NAME_LENGTH)), tuple(read_metadata(reader))
            listed = tuple(certificates.read_list(reader))
            response = cls(kind, identifier, name, metadata, listed, level=level)
            if kind in (CHANGED, CHANGED_BEYOND) and not response.certificates:
                raise Malformed("RIB response: changed to nothing")
        elif kind == ABSENT:
            listed = tuple(certificates.read_list(reader))
            if len(listed) != 1 or listed[0].type != ABSENCE:
                raise Malformed("RIB response: not one absence")
            response = cls(kind, identifier, certificates=listed)
        elif kind == STORED:
            response = cls(kind, identifier)
        elif kind == REFUSED:
            refusal = reader.integer(1)
            if refusal not in REFUSALS:
                raise Malformed("RIB response: refusal")
            shown = tuple(certificates.read_list(reader)) if refusal == SUPERSEDED else ()
            if len(shown) > 1:
                raise Malformed("RIB response: more than one newer statement")
            response = cls(kind, identifier, certificates=shown, refusal=refusal)
        elif kind == STORE:
            response = cls(kind, identifier, store=reader.take(STORE_LENGTH))
        elif kind == DOMAINS:
            revision, end = reader.integer(8), reader.integer(1)
            if end > 1:
                raise Malformed("RIB response: end")
            offered = _read_offered(reader)
            response = cls(kind, identifier, revision=revision, is_end=end == 1, offered=offered)
        elif kind == NAMES:
            listed = tuple(read_metadata(reader))
            response = cls(kind, identifier, metadata=listed, published=PublishedNames.read(reader))
        elif kind == REMOVALS:
            store, position, count = reader.take(STORE_LENGTH), reader.integer(8), reader.integer(1)
            if count > _MOST_REMOVALS:
                raise Malformed("RIB response: too many removals")
            removals = tuple(Lists.read(reader) for _ in range(count))
            response = cls(kind, identifier, store=store, position=position, removals=removals)
        elif kind == PROOF:
            head = Head.read(reader)
            response = cls(kind, identifier, head=head, way=Way.read(reader))
        elif kind == WAY_BACK:
            count = reader.integer(1)
            if count > MOST_WAY_BACK:
                raise Malformed("RIB response: way back")
            response = cls(kind, identifier, back=tuple(reader.take(HASH_LENGTH) for _ in range(count)))
        else:
            raise Malformed("RIB response: kind")
        reader.end()
        return response


def encode_metadata(listed: Sequence[Metadata]) -> bytes:
    """A count, and per item a length and the encoding."""
    encoded = [item.encode() for item in listed]
    return bytes([len(encoded)]) + b"".join(len(item).to_bytes(2, "big") + item for item in encoded)


def read_metadata(reader: Reader) -> List[Metadata]:
    """Reads a list of metadata."""
    count = reader.integer(1)
    if count > _MOST_METADATA:
        raise Malformed("metadata list: too many")
    return [Metadata.parse(reader.vector(2)) for _ in range(count)]
