"""What clients of both versions have at hand from the start."""

import os
from typing import List

from cryptography.hazmat.primitives.asymmetric import ec

from .flights import Outgoing
from .fragments import Reassembler


class Client:
    """One handshake of either version."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: bytes, expected: int):
        self.outbox: List[bytes] = []
        self.is_complete = False
        # What the server sent as application data.
        self.received: List[bytes] = []
        # The server's certificate in DER. Whose it is, the caller decides.
        self.peer_certificate = b""

        self._key = key
        self._certificate = certificate
        self._ephemeral = ec.generate_private_key(ec.SECP256R1())
        self._random = os.urandom(32)
        self._next_message = 0
        self._flight: List[Outgoing] = []
        self._transcript = b""
        self._reassembler = Reassembler()
        # The next message of the server.
        self._expected = expected
