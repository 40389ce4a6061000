"""The key schedule of DTLS 1.3: that of TLS 1.3 (RFC 8446 section 7) with other labels (RFC 9147 section 5.9)."""

import hashlib
import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

_LABEL_PREFIX = b"dtls13"
NONCE_LENGTH = 12


@dataclass(frozen=True)
class CipherSuite:
    """What differs between the two suites that this client knows."""

    number: int
    key_length: int
    hash_name: str
    algorithm: hashes.HashAlgorithm

    @property
    def hash_length(self) -> int:
        """The length of hashes and secrets."""
        return self.algorithm.digest_size

    def hash(self, data: bytes) -> bytes:
        """Transcript-Hash."""
        return hashlib.new(self.hash_name, data).digest()

    def mac(self, key: bytes, data: bytes) -> bytes:
        """HMAC, which is also HKDF-Extract."""
        return hmac.digest(key, data, self.hash_name)

    def expand_label(self, secret: bytes, label: bytes, context: bytes, length: int) -> bytes:
        """HKDF-Expand-Label."""
        label = _LABEL_PREFIX + label
        info = length.to_bytes(2, "big") + bytes([len(label)]) + label + bytes([len(context)]) + context
        return HKDFExpand(self.algorithm, length, info).derive(secret)

    def derive_secret(self, secret: bytes, label: bytes, transcript: bytes) -> bytes:
        """Derive-Secret."""
        return self.expand_label(secret, label, self.hash(transcript), self.hash_length)


TLS_AES_128_GCM_SHA256 = CipherSuite(0x1301, 16, "sha256", hashes.SHA256())
TLS_AES_256_GCM_SHA384 = CipherSuite(0x1302, 32, "sha384", hashes.SHA384())
CIPHER_SUITES = {suite.number: suite for suite in (TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256)}


@dataclass(frozen=True, repr=False)
class TrafficSecret:
    """A secret of one direction in one epoch."""

    suite: CipherSuite
    secret: bytes

    def key(self) -> bytes:
        """The AEAD key."""
        return self.suite.expand_label(self.secret, b"key", b"", self.suite.key_length)

    def nonce(self) -> bytes:
        """What the sequence number is added to for the AEAD nonce."""
        return self.suite.expand_label(self.secret, b"iv", b"", NONCE_LENGTH)

    def sequence_number_key(self) -> bytes:
        """What hides sequence numbers (RFC 9147 section 4.2.3)."""
        return self.suite.expand_label(self.secret, b"sn", b"", self.suite.key_length)

    def verify_data(self, transcript: bytes) -> bytes:
        """What a Finished message holds."""
        key = self.suite.expand_label(self.secret, b"finished", b"", self.suite.hash_length)
        return self.suite.mac(key, self.suite.hash(transcript))


class HandshakeSecrets:
    """The secrets up to the Finished messages, and the way to those after them."""

    def __init__(self, suite: CipherSuite, shared: bytes, transcript: bytes):
        nothing = bytes(suite.hash_length)
        early = suite.mac(nothing, nothing)
        self._suite = suite
        self._secret = suite.mac(suite.derive_secret(early, b"derived", b""), shared)
        self.client = TrafficSecret(suite, suite.derive_secret(self._secret, b"c hs traffic", transcript))
        self.server = TrafficSecret(suite, suite.derive_secret(self._secret, b"s hs traffic", transcript))

    def application(self, transcript: bytes) -> "ApplicationSecrets":
        """The secrets of a handshake up to the server's Finished."""
        derived = self._suite.derive_secret(self._secret, b"derived", b"")
        master = self._suite.mac(derived, bytes(self._suite.hash_length))
        return ApplicationSecrets(self._suite, master, transcript)


class ApplicationSecrets:
    """The secrets after the handshake."""

    def __init__(self, suite: CipherSuite, master: bytes, transcript: bytes):
        self._suite = suite
        self._exporter = suite.derive_secret(master, b"exp master", transcript)
        self.client = TrafficSecret(suite, suite.derive_secret(master, b"c ap traffic", transcript))
        self.server = TrafficSecret(suite, suite.derive_secret(master, b"s ap traffic", transcript))

    def export(self, label: bytes, length: int) -> bytes:
        """Keying material for others (RFC 8446 section 7.5), with an empty context."""
        secret = self._suite.derive_secret(self._exporter, label, b"")
        return self._suite.expand_label(secret, b"exporter", self._suite.hash(b""), length)
