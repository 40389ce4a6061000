"""The log of a RIB: heads, ways through its map, and what they prove (section 8.11)."""

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Optional, Sequence, Tuple

from .certificates import CLOCK_SKEW_S, SIGNATURE_LENGTH, SIGNED_PREFIX, VERSION, Certificate
from .errors import Malformed, Untrusted
from .identity import Identity
from .metadata import Metadata
from .names import NAME_LENGTH, Name
from .reader import Reader

HEAD = 9
HASH_LENGTH = 32
NOTHING = bytes(HASH_LENGTH)
MOST_FINGERPRINTS = 16
MOST_HEADS = 6
MOST_WAY_BACK = 64

_LEAF, _NODE, _VALUE, _POSITION, _FINGERPRINT, _HEAD, _HISTORY = range(7)
_EMPTY, _NAME, _OTHER, _NOT_YET = range(4)


def _hash(kind: int, *parts: bytes) -> bytes:
    return sha256(bytes([kind]) + b"".join(parts)).digest()


def fingerprint(certificate: Certificate) -> bytes:
    """What a map holds of a certificate."""
    return _hash(_FINGERPRINT, certificate.encode())


@dataclass(frozen=True)
class Head:
    """What a RIB says that it holds and held."""

    epoch: int
    began_ms: int
    made_ms: int
    names: int
    rib: Name
    map: bytes
    history: bytes
    signature: bytes = bytes(SIGNATURE_LENGTH)

    def encode(self) -> bytes:
        """The head as it travels."""
        return self._statement() + self.signature

    def sign(self, identity: Identity) -> "Head":
        """The same head, signed."""
        return replace(self, signature=identity.sign(SIGNED_PREFIX + self._statement()))

    def verify(self, rib: Metadata, now_s: float) -> None:
        """Refuses a head that its RIB did not sign, or that is from the future."""
        if self.made_ms / 1000 > now_s + CLOCK_SKEW_S:
            raise Untrusted("head: from the future")
        if rib.name() != self.rib:
            raise Untrusted("head: these are not the RIB's metadata")
        rib.verify(self.signature, SIGNED_PREFIX + self._statement())

    def hash(self) -> bytes:
        """The head as a leaf of the history."""
        return _hash(_HEAD, SIGNED_PREFIX + self._statement())

    def _statement(self) -> bytes:
        numbers = (self.epoch, self.began_ms, self.made_ms, self.names)
        parts = [bytes([VERSION, HEAD, 0, 0])] + [number.to_bytes(8, "big") for number in numbers]
        return b"".join(parts + [self.rib.octets, self.map, self.history])

    @classmethod
    def read(cls, reader: Reader) -> "Head":
        """Reads one head."""
        reader.expect(bytes([VERSION, HEAD, 0, 0]), "beginning of a head")
        epoch, began_ms, made_ms, names = (reader.integer(8) for _ in range(4))
        rib = Name(reader.take(NAME_LENGTH))
        map_, history = reader.take(HASH_LENGTH), reader.take(HASH_LENGTH)
        if began_ms > made_ms:
            raise Malformed("head: made before its log began")
        if (epoch == 0) != (history == NOTHING) or (names == 0) != (map_ == NOTHING):
            raise Malformed("head: root")
        return cls(epoch, began_ms, made_ms, names, rib, map_, history, reader.take(SIGNATURE_LENGTH))


def parse_heads(data: bytes) -> Tuple[Head, ...]:
    """Reads the data of a Heads PDU."""
    reader = Reader(data, "heads")
    count = reader.integer(1)
    if not 1 <= count <= MOST_HEADS:
        raise Malformed("heads: how many")
    heads = tuple(Head.read(reader) for _ in range(count))
    reader.end()
    return heads


def encode_heads(heads: Sequence[Head]) -> bytes:
    """The data of a Heads PDU."""
    return bytes([len(heads)]) + b"".join(head.encode() for head in heads)


@dataclass(frozen=True)
class Way:
    """A way through a map: to the name itself (``fingerprints``), to another one, or through nothing."""

    fingerprints: Tuple[bytes, ...] = ()
    other: Optional[Tuple[bytes, bytes]] = None
    branches: Tuple[Tuple[int, bytes], ...] = ()

    def held(self, head: Head, name: Name) -> Tuple[bytes, ...]:
        """The fingerprints of what the head's RIB held of ``name``; refuses a way that is not through its map."""
        position = _hash(_POSITION, name.octets)
        if self.fingerprints:
            hashed = _hash(_LEAF, position, _hash(_VALUE, *self.fingerprints))
        elif self.other is not None:
            if self.other[0] == position:
                raise Untrusted("way: denies a name by its own leaf")
            hashed = _hash(_LEAF, *self.other)
        else:
            hashed = NOTHING
        for bit, side in reversed(self.branches):
            is_one = position[bit // 8] >> (7 - bit % 8) & 1
            hashed = _hash(_NODE, bytes([bit]), *((side, hashed) if is_one else (hashed, side)))
        if hashed != head.map:
            raise Untrusted("way: not through the map of this head")
        return self.fingerprints

    def encode(self) -> bytes:
        """The way as it travels."""
        if self.fingerprints:
            data = bytes([_NAME, len(self.fingerprints)]) + b"".join(self.fingerprints)
        else:
            data = bytes([_EMPTY]) if self.other is None else bytes([_OTHER]) + b"".join(self.other)
        bits = sum(1 << (255 - bit) for bit, _ in self.branches)
        return data + bits.to_bytes(32, "big") + b"".join(side for _, side in self.branches)

    @classmethod
    def read(cls, reader: Reader) -> Optional["Way"]:
        """Reads a way, or that there is none to tell yet."""
        kind, fingerprints, other = reader.integer(1), (), None
        if kind == _NOT_YET:
            return None
        if kind == _NAME:
            count = reader.integer(1)
            if not 1 <= count <= MOST_FINGERPRINTS:
                raise Malformed("way: fingerprints")
            fingerprints = tuple(reader.take(HASH_LENGTH) for _ in range(count))
        elif kind == _OTHER:
            other = (reader.take(HASH_LENGTH), reader.take(HASH_LENGTH))
        elif kind != _EMPTY:
            raise Malformed("way: end")
        bits = int.from_bytes(reader.take(32), "big")
        branches = tuple((bit, reader.take(HASH_LENGTH)) for bit in range(256) if bits >> (255 - bit) & 1)
        if kind == _EMPTY and branches:
            raise Malformed("way: through an empty map")
        return cls(fingerprints, other, branches)


def encode_way(way: Optional[Way]) -> bytes:
    """A way, or that there is none to tell yet."""
    return bytes([_NOT_YET]) if way is None else way.encode()


def is_before(earlier: Head, later: Head, back: Sequence[bytes]) -> bool:
    """Whether ``back`` shows that the one is among the heads before the other (RFC 9162, section 2.1.3.2)."""
    if (earlier.rib, earlier.began_ms) != (later.rib, later.began_ms) or earlier.epoch >= later.epoch:
        return False
    at, last, hashed = earlier.epoch, later.epoch - 1, earlier.hash()
    for other in back:
        if last == 0:
            return False
        if at % 2 or at == last:
            hashed = _hash(_HISTORY, other, hashed)
            while at and at % 2 == 0:
                at, last = at // 2, last // 2
        else:
            hashed = _hash(_HISTORY, hashed, other)
        at, last = at // 2, last // 2
    return last == 0 and hashed == later.history
