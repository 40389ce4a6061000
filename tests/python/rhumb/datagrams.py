"""Datagrams that are no sealed ones (section 4), and those of discovery (section 10)."""

import hashlib
from dataclasses import dataclass
from typing import Optional

from .errors import Malformed
from .reader import Reader

DTLS_FIRST_BYTES = range(20, 64)
TOKEN_LENGTH = 24
HELLO_ID_LENGTH = 8
DISCOVERY_PORT = 7462
DISCOVERY_GROUP = "ff02::7268:756d"

_INITIAL, _RETRY = b"\x90\x00\x00\x01", b"\xa0\x00\x00\x01"
_QUERY, _ANSWER = b"\xc0\x00\x00\x01", b"\xc0\x00\x00\x02"
_NONCE_LENGTH = 8
_RECORD_HEADER_LENGTH = 13
_QUERY_PADDING = bytes(52)


@dataclass(frozen=True)
class Initial:
    """An initiator's first DTLS datagram, with the token it was given, if any."""

    dtls: bytes
    token: Optional[bytes] = None

    def encode(self) -> bytes:
        """The datagram."""
        token = self.token or b""
        return _INITIAL + bytes([len(token)]) + token + self.dtls

    @classmethod
    def parse(cls, datagram: bytes) -> "Initial":
        """Reads a datagram that is exactly one initial."""
        reader = Reader(datagram, "initial")
        reader.expect(_INITIAL, "not version 1")
        token = reader.vector(1)
        if len(token) not in (0, TOKEN_LENGTH):
            raise Malformed("initial: length of the token")
        dtls = reader.rest()
        if not dtls or dtls[0] not in DTLS_FIRST_BYTES:
            raise Malformed("initial: no DTLS datagram")
        return cls(dtls, token or None)


@dataclass(frozen=True)
class Retry:
    """A responder's demand to come back with this token."""

    hello: bytes
    token: bytes

    def encode(self) -> bytes:
        """The datagram."""
        return _RETRY + self.hello + self.token

    @classmethod
    def parse(cls, datagram: bytes) -> "Retry":
        """Reads a datagram that is exactly one retry."""
        reader = Reader(datagram, "retry")
        reader.expect(_RETRY, "not version 1")
        hello, token = reader.take(HELLO_ID_LENGTH), reader.take(TOKEN_LENGTH)
        reader.end()
        return cls(hello, token)

    def answers(self, dtls: bytes) -> bool:
        """Whether it is about this DTLS datagram, which only who saw it can know."""
        return self.hello == hashlib.sha256(dtls[_RECORD_HEADER_LENGTH:]).digest()[:HELLO_ID_LENGTH]


@dataclass(frozen=True)
class Discovery:
    """The question whether there is a router, or the answer."""

    is_query: bool
    nonce: bytes

    def encode(self) -> bytes:
        """The datagram."""
        return _QUERY + self.nonce + _QUERY_PADDING if self.is_query else _ANSWER + self.nonce

    @classmethod
    def parse(cls, datagram: bytes) -> "Discovery":
        """Reads a datagram that is exactly one query or one answer."""
        reader = Reader(datagram, "discovery")
        kind = reader.take(len(_QUERY))
        if kind not in (_QUERY, _ANSWER):
            raise Malformed("discovery: kind")
        nonce = reader.take(_NONCE_LENGTH)
        if kind == _QUERY:
            reader.expect(_QUERY_PADDING, "padding")
        reader.end()
        return cls(kind == _QUERY, nonce)
