"""Groups (section 15): names that many receive what is sent to."""

from dataclasses import dataclass
from typing import Optional

from .errors import Malformed
from .reader import Reader
from .rib import Lists

LEAVE, RECEIVE, SEND, BOTH, REMOVE = range(5)

_LEAVE_PADDING = bytes(3)


@dataclass(frozen=True)
class GroupRequest:
    """What a member asks of its router, with the membership or the removal that shows it."""

    kind: int
    lists: Optional[Lists] = None

    def encode(self) -> bytes:
        """The data of a GroupRequest PDU."""
        return bytes([self.kind]) + (_LEAVE_PADDING if self.lists is None else self.lists.encode())

    @classmethod
    def parse(cls, data: bytes) -> "GroupRequest":
        """Reads the data of a GroupRequest PDU."""
        reader = Reader(data, "group request")
        kind = reader.integer(1)
        if kind == LEAVE:
            if data[1:] != _LEAVE_PADDING:
                raise Malformed("group request: more than to leave")
            return cls(kind)
        if kind > REMOVE:
            raise Malformed("group request: kind")
        lists = Lists.read(reader)
        reader.end()
        if len(lists.metadata) != len(lists.certificates):
            raise Malformed("group request: issuers")
        return cls(kind, lists)


@dataclass(frozen=True)
class GroupAccept:
    """What a router takes the member for from now on, and until when."""

    kind: int
    until_s: int

    def encode(self) -> bytes:
        """The data of a GroupAccept PDU."""
        return bytes([self.kind]) + self.until_s.to_bytes(8, "big")

    @classmethod
    def parse(cls, data: bytes) -> "GroupAccept":
        """Reads the data of a GroupAccept PDU."""
        reader = Reader(data, "group accept")
        kind, until_s = reader.integer(1), reader.integer(8)
        reader.end()
        if kind > BOTH or (kind == LEAVE and until_s):
            raise Malformed("group accept: kind")
        return cls(kind, until_s)
