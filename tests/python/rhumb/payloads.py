"""Payloads (section 9): the data of Data PDUs, from end to end."""

from dataclasses import dataclass

from .errors import Malformed
from .reader import Reader

DATAGRAM, CONNECTION, HALF = 1, 3, 4
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
        if kind not in (DATAGRAM, CONNECTION, HALF):
            raise Malformed("payload: kind")
        reader.expect(b"\0", "reserved byte")
        port = reader.integer(2)
        if kind == CONNECTION and port != 0:
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
