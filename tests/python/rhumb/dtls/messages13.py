"""The handshake messages of DTLS 1.3 that this client writes and reads (RFC 8446 section 4, RFC 9147 section 5)."""

from dataclasses import dataclass
from typing import Optional

from ..errors import HandshakeFailed
from ..reader import Reader
from . import extensions
from .extensions import (
    COOKIE,
    ECDSA_SECP256R1_SHA256,
    KEY_SHARE,
    SECP256R1,
    SIGNATURE_ALGORITHMS,
    SRTP_PROFILE,
    SUPPORTED_GROUPS,
    SUPPORTED_VERSIONS,
    USE_SRTP,
    vector,
)
from .keys13 import CIPHER_SUITES, CipherSuite

CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS = 1, 2, 8
CERTIFICATE, CERTIFICATE_REQUEST, CERTIFICATE_VERIFY, FINISHED = 11, 13, 15, 20
MESSAGE_HASH = 254

_LEGACY_VERSION = b"\xfe\xfd"
_DTLS_1_3 = b"\xfe\xfc"
_RANDOM_LENGTH = 32
# SHA-256 of "HelloRetryRequest", in place of a random.
_RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def client_hello(random: bytes, point: bytes, cookie: Optional[bytes]) -> bytes:
    """What this client offers. Apart from the cookie, it is the same both times."""
    offered = {
        SUPPORTED_VERSIONS: vector(_DTLS_1_3, 1),
        SUPPORTED_GROUPS: vector(SECP256R1, 2),
        SIGNATURE_ALGORITHMS: vector(ECDSA_SECP256R1_SHA256, 2),
        USE_SRTP: SRTP_PROFILE,
        KEY_SHARE: vector(SECP256R1 + vector(point, 2), 2),
    }
    if cookie is not None:
        offered[COOKIE] = vector(cookie, 2)
    suites = b"".join(number.to_bytes(2, "big") for number in CIPHER_SUITES)
    no_session, no_legacy_cookie, no_compression = b"", b"", b"\0"
    return b"".join([
        _LEGACY_VERSION, random, vector(no_session, 1), vector(no_legacy_cookie, 1),
        vector(suites, 2), vector(no_compression, 1), extensions.encode(offered),
    ])


@dataclass(frozen=True)
class ServerHello:
    """What the server chose, or its wish for another ClientHello."""

    suite: CipherSuite
    is_retry_request: bool
    cookie: Optional[bytes]
    point: bytes

    @classmethod
    def parse(cls, body: bytes) -> "ServerHello":
        """Refuses a choice that was not offered."""
        reader = Reader(body, "ServerHello")
        reader.expect(_LEGACY_VERSION, "version")
        is_retry_request = reader.take(_RANDOM_LENGTH) == _RETRY_RANDOM
        reader.vector(1)
        suite = CIPHER_SUITES.get(reader.integer(2))
        reader.expect(b"\0", "compression")
        answered = extensions.parse(reader.vector(2) if reader.left() else b"")
        reader.end()
        if suite is None or answered.get(SUPPORTED_VERSIONS) != _DTLS_1_3:
            raise HandshakeFailed("the server does without DTLS 1.3")
        cookie = answered.get(COOKIE)
        if is_retry_request:
            # It may ask for a cookie, but not for another group: there is only one.
            if cookie is None or KEY_SHARE in answered:
                raise HandshakeFailed("the server asks for what was not offered")
            return cls(suite, True, Reader(cookie, "cookie").vector(2), b"")
        share = Reader(answered.get(KEY_SHARE, b""), "key share")
        share.expect(SECP256R1, "group")
        return cls(suite, False, None, share.vector(2))


def check_encrypted_extensions(body: bytes) -> None:
    """Refuses a server that does without the SRTP profile."""
    reader = Reader(body, "EncryptedExtensions")
    answered = extensions.parse(reader.vector(2))
    reader.end()
    if answered.get(USE_SRTP) != SRTP_PROFILE:
        raise HandshakeFailed("the server does without SRTP_AEAD_AES_256_GCM")


def read_certificate_request(body: bytes) -> bytes:
    """The context to repeat. Refuses a server that would not take our signature."""
    reader = Reader(body, "CertificateRequest")
    context = reader.vector(1)
    asked = extensions.parse(reader.vector(2))
    reader.end()
    algorithms = Reader(asked.get(SIGNATURE_ALGORITHMS, b""), "signature algorithms").vector(2)
    if ECDSA_SECP256R1_SHA256 not in [algorithms[at:at + 2] for at in range(0, len(algorithms), 2)]:
        raise HandshakeFailed("the server does not take ECDSA certificates")
    return context


def certificate(context: bytes, der: bytes) -> bytes:
    """A Certificate message with one certificate, without extensions."""
    entry = vector(der, 3) + vector(b"", 2)
    return vector(context, 1) + vector(entry, 3)


def read_certificate(body: bytes) -> bytes:
    """The first certificate of a Certificate message: the sender's own."""
    reader = Reader(body, "Certificate")
    reader.expect(b"\0", "context")
    entries = Reader(reader.vector(3), "Certificate")
    reader.end()
    return entries.vector(3)


def signed_content(side: bytes, transcript_hash: bytes) -> bytes:
    """What a CertificateVerify of the server or client signs."""
    return b" " * 64 + b"TLS 1.3, " + side + b" CertificateVerify\0" + transcript_hash


def certificate_verify(signature: bytes) -> bytes:
    """Our signature over the handshake so far."""
    return ECDSA_SECP256R1_SHA256 + vector(signature, 2)


def read_certificate_verify(body: bytes) -> bytes:
    """The signature of a CertificateVerify."""
    reader = Reader(body, "CertificateVerify")
    reader.expect(ECDSA_SECP256R1_SHA256, "signature algorithm")
    signature = reader.vector(2)
    reader.end()
    return signature
