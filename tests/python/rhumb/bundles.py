"""Bundles (section 4.8): PDUs that share a sealed datagram."""

from typing import List, Sequence

from .errors import Malformed
from .reader import Reader

MOST_PDUS = 64


def encode(pdus: Sequence[bytes]) -> bytes:
    """A bundle; without PDUs, that its sender takes bundles."""
    return b"".join(len(pdu).to_bytes(2, "big") + pdu for pdu in pdus)


def parse(data: bytes) -> List[bytes]:
    """The PDUs of a bundle, in order."""
    reader = Reader(data, "bundle")
    pdus = []
    while reader.left():
        pdu = reader.vector(2)
        if not pdu:
            raise Malformed("bundle: an empty PDU")
        pdus.append(pdu)
    if len(pdus) > MOST_PDUS:
        raise Malformed("bundle: too many PDUs")
    return pdus
