"""Links over TLS on TCP (section 4.7): the frames of a stream, and what each end says first."""

from .errors import Malformed
from .reader import Reader

PDU = 0x80
CLOSE = 0xB0
# A sealed datagram is so much longer than its PDU.
_RECORD_OVERHEAD = 28
_LEAST_LARGEST_DATAGRAM = 1232


class StreamParameters:
    """Session parameters of a stream: one lane, no index."""

    def __init__(self, largest_datagram: int):
        self.largest_datagram = largest_datagram

    def encode(self) -> bytes:
        """The first frame of a stream."""
        return b"\x00\x0aRP\x01\x01" + bytes(4) + self.largest_datagram.to_bytes(2, "big")

    @classmethod
    def parse(cls, data: bytes) -> "StreamParameters":
        """Reads the first frame, and nothing behind it."""
        reader = Reader(data, "stream parameters")
        reader.expect(b"\x00\x0aRP\x01\x01" + bytes(4), "not one lane without an index")
        largest_datagram = reader.integer(2)
        reader.end()
        if largest_datagram < _LEAST_LARGEST_DATAGRAM:
            raise Malformed("stream parameters: largest datagram")
        return cls(largest_datagram)


class Frame:
    """A PDU, empty for a keep-alive, or a close."""

    def __init__(self, kind: int, pdu: bytes = b""):
        self.kind = kind
        self.pdu = pdu

    def encode(self) -> bytes:
        """The frame as it travels."""
        return (1 + len(self.pdu)).to_bytes(2, "big") + bytes([self.kind]) + self.pdu

    @classmethod
    def parse(cls, data: bytes, largest_datagram: int = 1452) -> "Frame":
        """Reads one frame, and nothing behind it."""
        reader = Reader(data, "frame")
        content = Reader(reader.vector(2), "frame")
        reader.end()
        kind, pdu = content.integer(1), content.rest()
        if kind not in (PDU, CLOSE):
            raise Malformed("frame: no such type")
        if kind == CLOSE and pdu:
            raise Malformed("frame: a close that says something")
        if len(pdu) > largest_datagram - _RECORD_OVERHEAD:
            raise Malformed("frame: too long")
        return cls(kind, pdu)
