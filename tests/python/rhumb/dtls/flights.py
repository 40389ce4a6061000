"""Records that are sent together."""

from typing import Iterable, List, NamedTuple

from . import records
from .fragments import HEADER_LENGTH

DATAGRAM_LENGTH = 1200
# A sealed record adds no more than this.
_MOST_OVERHEAD = 24
# So that a sealed record with one fragment fits a datagram.
LONGEST_FRAGMENT = DATAGRAM_LENGTH - records.HEADER_LENGTH - HEADER_LENGTH - _MOST_OVERHEAD


class Outgoing(NamedTuple):
    """A record to be: sequence numbers and seals are given when it is sent, anew each time."""

    type: int
    epoch: int
    payload: bytes


def pack(encoded_records: Iterable[bytes]) -> List[bytes]:
    """Puts records into as few datagrams as hold them in this order."""
    datagrams = [b""]
    for record in encoded_records:
        if len(datagrams[-1]) + len(record) > DATAGRAM_LENGTH:
            datagrams.append(b"")
        datagrams[-1] += record
    return [datagram for datagram in datagrams if datagram]
