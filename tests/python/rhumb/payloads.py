"""Payloads (section 9): the data of Data PDUs, from end to end."""

from dataclasses import dataclass

from .errors import Malformed
from .reader import Reader

DATAGRAM, CONNECTION, HALF, RECORD = 1, 3, 4, 5
HEADER_LENGTH = 4


@dataclass(frozen=True)
class Payload:
    """A body, and the port of the destination that it is for."""

    kind: int
    port: int
    body: bytes

    def encode(self) -> bytes:
        """The data of a Data PDU."""
        return bytes([self.kind, 0]) + self.port.to_bytes(2, "big") + self.body

    @classmethod
    def parse(cls, data: bytes) -> "Payload":
        """Reads the data of a Data PDU."""
        reader = Reader(data, "payload")
        kind = reader.integer(1)
        if kind not in (DATAGRAM, CONNECTION, HALF, RECORD):
            raise Malformed("payload: kind")
        reader.expect(b"\0", "reserved byte")
        port = reader.integer(2)
        if kind in (CONNECTION, RECORD) and port != 0:
            raise Malformed("payload: port")
        return cls(kind, port, reader.rest())


@dataclass(frozen=True)
class Half:
    """Half of a QUIC datagram: the body of a payload of kind HALF."""

    is_second: bool
    octets: bytes

    def encode(self) -> bytes:
        """The body."""
        return bytes([self.is_second]) + self.octets

    @classmethod
    def parse(cls, body: bytes) -> "Half":
        """Reads the body."""
        reader = Reader(body, "half")
        which = reader.integer(1)
        octets = reader.rest()
        if which > 1 or not octets:
            raise Malformed("half")
        return cls(which == 1, octets)


@dataclass(frozen=True)
class Part:
    """A part of a run of TCP segments (section 9.3), with the headers that they share, or without."""

    number: int
    offset: int
    octets: bytes
    headers: bytes = b""
    segment_length: int = 0
    total: int = 0

    def encode(self) -> bytes:
        """The datagram."""
        place = self.number.to_bytes(2, "big") + self.offset.to_bytes(2, "big")
        if not self.headers:
            return b"\2" + place + self.octets
        lengths = self.segment_length.to_bytes(2, "big") + self.total.to_bytes(2, "big")
        return b"\3" + place + lengths + self.headers + self.octets

    @classmethod
    def parse(cls, datagram: bytes) -> "Part":
        """Reads the datagram."""
        reader = Reader(datagram, "part of a run")
        kind, number, offset = reader.integer(1), reader.integer(2), reader.integer(2)
        if kind not in (2, 3):
            raise Malformed("part of a run: kind")
        if kind == 2:
            part = cls(number, offset, reader.rest())
            return part._checked(_LONGEST)
        segment_length, total = reader.integer(2), reader.integer(2)
        rest = reader.rest()
        length = _headers_length(rest)
        part = cls(number, offset, rest[length:], rest[:length], segment_length, total)
        if segment_length == 0 or length + total > _LONGEST:
            raise Malformed("part of a run: length")
        return part._checked(total)

    def _checked(self, end: int) -> "Part":
        if not self.octets or self.offset + len(self.octets) > end:
            raise Malformed("part of a run: place")
        return self


_LONGEST = 65535
_TCP = 6
# ACK, and what may be beside it: FIN, PSH, ECE, CWR.
_ACK, _OTHERS = 0x10, 0xC9


def _headers_length(octets: bytes) -> int:
    """How long the headers are; they are refused where lengths and checksums are not zero."""
    if len(octets) >= 20 and octets[0] == 0x45 and octets[9] == _TCP and not octets[6] & 0xBF and not octets[7]:
        ip, zero = 20, octets[2:4] + octets[10:12]
    elif len(octets) >= 40 and octets[0] >> 4 == 6 and octets[6] == _TCP:
        ip, zero = 40, octets[4:6]
    else:
        raise Malformed("part of a run: IP header")
    if len(octets) < ip + 20:
        raise Malformed("part of a run: TCP header")
    length, flags = ip + (octets[ip + 12] >> 4) * 4, octets[ip + 13]
    if length < ip + 20 or len(octets) < length or not flags & _ACK or flags & ~(_ACK | _OTHERS):
        raise Malformed("part of a run: TCP header")
    if any(zero) or any(octets[ip + 16 : ip + 18]):
        raise Malformed("part of a run: a length or checksum")
    return length
