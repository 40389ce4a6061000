"""Handshake messages, and the pieces that they travel in (RFC 6347 section 4.2, RFC 9147 section 5.5)."""

from dataclasses import dataclass
from typing import Dict, Iterator, Optional

from ..errors import Malformed
from ..reader import Reader

HEADER_LENGTH = 12
# Of the peer's messages: more than any real certificate needs, little enough to keep.
_LONGEST_MESSAGE = 1 << 15
# How far ahead of the message that is due a fragment may be.
_MESSAGES_AHEAD = 8


@dataclass(frozen=True)
class Message:
    """One handshake message."""

    type: int
    sequence: int
    body: bytes

    def encode(self) -> bytes:
        """The message in one piece, which is also how it counts in the transcript of DTLS 1.2."""
        return self._fragment(0, len(self.body))

    def encode_for_transcript13(self) -> bytes:
        """How the message counts in the transcript of DTLS 1.3: as in TLS (RFC 9147 section 5.2)."""
        return bytes([self.type]) + len(self.body).to_bytes(3, "big") + self.body

    def fragments(self, most: int) -> Iterator[bytes]:
        """The message in pieces whose bodies have at most so many bytes."""
        for start in range(0, max(len(self.body), 1), most):
            yield self._fragment(start, min(start + most, len(self.body)))

    def _fragment(self, start: int, end: int) -> bytes:
        header = bytes([self.type]) + len(self.body).to_bytes(3, "big") + self.sequence.to_bytes(2, "big")
        return header + start.to_bytes(3, "big") + (end - start).to_bytes(3, "big") + self.body[start:end]


class Reassembler:
    """Puts the peer's messages together, in whatever order their pieces come."""

    def __init__(self) -> None:
        self._due = 0
        self._parts: Dict[int, "_Partial"] = {}

    def add(self, payload: bytes) -> None:
        """Takes the payload of a handshake record: one or more fragments."""
        reader = Reader(payload, "handshake fragment")
        while reader.left():
            type_, length, sequence = reader.integer(1), reader.integer(3), reader.integer(2)
            start, count = reader.integer(3), reader.integer(3)
            body = reader.take(count)
            if length > _LONGEST_MESSAGE or start + count > length:
                raise Malformed("handshake fragment: length")
            if not self._due <= sequence < self._due + _MESSAGES_AHEAD:
                continue
            part = self._parts.setdefault(sequence, _Partial(type_, length))
            if (part.type, part.length) != (type_, length):
                raise Malformed("handshake fragment: contradicts another")
            part.add(start, body)

    def next(self) -> Optional[Message]:
        """The message that is due, once all of it is there."""
        part = self._parts.get(self._due)
        if part is None or not part.is_complete():
            return None
        message = Message(part.type, self._due, bytes(part.body))
        del self._parts[self._due]
        self._due += 1
        return message


class _Partial:
    def __init__(self, type_: int, length: int):
        self.type = type_
        self.length = length
        self.body = bytearray(length)
        self._is_there = bytearray(length)

    def add(self, start: int, body: bytes) -> None:
        self.body[start:start + len(body)] = body
        self._is_there[start:start + len(body)] = b"\1" * len(body)

    def is_complete(self) -> bool:
        return all(self._is_there)
