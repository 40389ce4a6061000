"""The handshake messages that this client writes and reads.

ClientHello and ServerHello are of RFC 5246 section 7.4.1, HelloVerifyRequest of RFC 6347 section 4.2.1, the key
exchange of RFC 8422 section 5, the use_srtp extension of RFC 5764 section 4.1.
"""

from dataclasses import dataclass
from typing import List

from ..errors import HandshakeFailed
from ..reader import Reader
from . import extensions
from .extensions import (
    EC_POINT_FORMATS,
    ECDSA_SECP256R1_SHA256,
    EXTENDED_MASTER_SECRET,
    RENEGOTIATION_INFO,
    SECP256R1,
    SIGNATURE_ALGORITHMS,
    SRTP_PROFILE,
    SUPPORTED_GROUPS,
    USE_SRTP,
    vector,
)
from .keys12 import CIPHER_SUITES, CipherSuite
from .records import DTLS_1_2

CLIENT_HELLO, SERVER_HELLO, HELLO_VERIFY_REQUEST = 1, 2, 3
CERTIFICATE, SERVER_KEY_EXCHANGE, CERTIFICATE_REQUEST, SERVER_HELLO_DONE = 11, 12, 13, 14
CERTIFICATE_VERIFY, CLIENT_KEY_EXCHANGE, FINISHED = 15, 16, 20

_RANDOM_LENGTH = 32
_NAMED_CURVE = 3
_UNCOMPRESSED = 0
_ECDSA_SIGN = 64

_OFFERED = {
    SUPPORTED_GROUPS: vector(SECP256R1, 2),
    EC_POINT_FORMATS: bytes([1, _UNCOMPRESSED]),
    SIGNATURE_ALGORITHMS: vector(ECDSA_SECP256R1_SHA256, 2),
    USE_SRTP: SRTP_PROFILE,
    EXTENDED_MASTER_SECRET: b"",
    RENEGOTIATION_INFO: b"\0",
}


def client_hello(random: bytes, cookie: bytes) -> bytes:
    """What this client offers. Apart from the cookie, it is the same both times."""
    suites = b"".join(number.to_bytes(2, "big") for number in CIPHER_SUITES)
    no_session, no_compression = b"", b"\0"
    return b"".join([
        DTLS_1_2, random, vector(no_session, 1), vector(cookie, 1),
        vector(suites, 2), vector(no_compression, 1), extensions.encode(_OFFERED),
    ])


def read_cookie(body: bytes) -> bytes:
    """The cookie of a HelloVerifyRequest."""
    reader = Reader(body, "HelloVerifyRequest")
    # The version means nothing here (RFC 6347 section 4.2.1).
    reader.take(2)
    cookie = reader.vector(1)
    reader.end()
    return cookie


@dataclass(frozen=True)
class ServerHello:
    """What the server chose."""

    random: bytes
    suite: CipherSuite

    @classmethod
    def parse(cls, body: bytes) -> "ServerHello":
        """Refuses a choice that was not offered, and one that section 4.3 does not allow."""
        reader = Reader(body, "ServerHello")
        reader.expect(DTLS_1_2, "not DTLS 1.2")
        random = reader.take(_RANDOM_LENGTH)
        reader.vector(1)
        suite = CIPHER_SUITES.get(reader.integer(2))
        if suite is None:
            raise HandshakeFailed("the server chose a cipher suite that was not offered")
        reader.expect(b"\0", "compression")
        answered = extensions.parse(reader.vector(2) if reader.left() else b"")
        reader.end()
        if not answered.keys() <= _OFFERED.keys():
            raise HandshakeFailed("the server answered an extension that was not offered")
        if answered.get(EXTENDED_MASTER_SECRET) != b"":
            raise HandshakeFailed("the server does without extended master secret")
        if answered.get(USE_SRTP) != SRTP_PROFILE:
            raise HandshakeFailed("the server does without SRTP_AEAD_AES_256_GCM")
        return cls(random, suite)


def certificate(der: bytes) -> bytes:
    """A Certificate message with one certificate."""
    return vector(vector(der, 3), 3)


def read_certificate(body: bytes) -> bytes:
    """The first certificate of a Certificate message: the sender's own."""
    reader = Reader(body, "Certificate")
    chain = Reader(reader.vector(3), "Certificate")
    reader.end()
    return chain.vector(3)


@dataclass(frozen=True)
class ServerKeyExchange:
    """The server's ephemeral key, signed."""

    point: bytes
    # What the signature covers, after the randoms.
    parameters: bytes
    signature: bytes

    @classmethod
    def parse(cls, body: bytes) -> "ServerKeyExchange":
        """Takes P-256 and ECDSA with SHA-256 only."""
        reader = Reader(body, "ServerKeyExchange")
        reader.expect(bytes([_NAMED_CURVE]) + SECP256R1, "curve")
        point = reader.vector(1)
        parameters = body[:len(body) - reader.left()]
        reader.expect(ECDSA_SECP256R1_SHA256, "signature algorithm")
        signature = reader.vector(2)
        reader.end()
        return cls(point, parameters, signature)


def check_certificate_request(body: bytes) -> None:
    """Refuses a server that would not take our kind of certificate."""
    reader = Reader(body, "CertificateRequest")
    types, algorithms = reader.vector(1), reader.vector(2)
    # Names of authorities: our certificate is self-signed whatever they are.
    reader.vector(2)
    reader.end()
    if _ECDSA_SIGN not in types or ECDSA_SECP256R1_SHA256 not in _pairs(algorithms):
        raise HandshakeFailed("the server does not take ECDSA certificates")


def client_key_exchange(point: bytes) -> bytes:
    """Our ephemeral key."""
    return vector(point, 1)


def certificate_verify(signature: bytes) -> bytes:
    """Our signature over the handshake so far."""
    return ECDSA_SECP256R1_SHA256 + vector(signature, 2)


def _pairs(data: bytes) -> List[bytes]:
    return [data[at:at + 2] for at in range(0, len(data), 2)]
