"""Payloads (section 9): the data of Data PDUs, from end to end."""

from dataclasses import dataclass

from .errors import Malformed
from .reader import Reader

DATAGRAM, TRANSFER = 1, 2
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
        if kind not in (DATAGRAM, TRANSFER):
            raise Malformed("payload: kind")
        reader.expect(b"\0", "reserved byte")
        return cls(kind, reader.integer(2), reader.rest())
