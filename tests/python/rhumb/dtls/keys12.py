"""The PRF of TLS 1.2, and the secrets of a handshake (RFC 5246 sections 5, 6.3 and 8.1; RFC 7627; RFC 5705)."""

import hashlib
import hmac
from dataclasses import dataclass

MASTER_SECRET_LENGTH = 48
VERIFY_DATA_LENGTH = 12
IMPLICIT_NONCE_LENGTH = 4


@dataclass(frozen=True)
class CipherSuite:
    """What differs between the two suites that this client knows."""

    number: int
    key_length: int
    hash_name: str

    def hash(self, data: bytes) -> bytes:
        """The hash of this suite's PRF."""
        return hashlib.new(self.hash_name, data).digest()

    def prf(self, secret: bytes, label: bytes, seed: bytes, length: int) -> bytes:
        """P_hash over label and seed (RFC 5246 section 5)."""
        seed = label + seed
        output = b""
        chained = seed
        while len(output) < length:
            chained = hmac.digest(secret, chained, self.hash_name)
            output += hmac.digest(secret, chained + seed, self.hash_name)
        return output[:length]


ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 = CipherSuite(0xC02B, 16, "sha256")
ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 = CipherSuite(0xC02C, 32, "sha384")
CIPHER_SUITES = {
    suite.number: suite
    for suite in (ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
}


@dataclass(frozen=True, repr=False)
class KeyBlock:
    """The keys of DTLS records, per direction."""

    client_key: bytes
    server_key: bytes
    client_nonce: bytes
    server_nonce: bytes


@dataclass(frozen=True, repr=False)
class MasterSecret:
    """The secret that a handshake agrees on, and what it is used for."""

    suite: CipherSuite
    secret: bytes
    client_random: bytes
    server_random: bytes

    @classmethod
    def extended(
        cls, suite: CipherSuite, shared: bytes, transcript: bytes, client_random: bytes, server_random: bytes
    ) -> "MasterSecret":
        """From the ECDH secret and all messages up to and with ClientKeyExchange (RFC 7627 section 4)."""
        session_hash = suite.hash(transcript)
        secret = suite.prf(shared, b"extended master secret", session_hash, MASTER_SECRET_LENGTH)
        return cls(suite, secret, client_random, server_random)

    def key_block(self) -> KeyBlock:
        """RFC 5246 section 6.3. Mind the order of the randoms: the server's comes first here."""
        key_length = self.suite.key_length
        seed = self.server_random + self.client_random
        length = 2 * key_length + 2 * IMPLICIT_NONCE_LENGTH
        block = self.suite.prf(self.secret, b"key expansion", seed, length)
        nonces = block[2 * key_length:]
        return KeyBlock(
            block[:key_length],
            block[key_length:2 * key_length],
            nonces[:IMPLICIT_NONCE_LENGTH],
            nonces[IMPLICIT_NONCE_LENGTH:],
        )

    def verify_data(self, label: bytes, transcript: bytes) -> bytes:
        """What a Finished message holds."""
        return self.suite.prf(self.secret, label, self.suite.hash(transcript), VERIFY_DATA_LENGTH)

    def export(self, label: bytes, length: int) -> bytes:
        """Keying material for others (RFC 5705, without a context)."""
        return self.suite.prf(self.secret, label, self.client_random + self.server_random, length)
