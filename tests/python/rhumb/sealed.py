"""Sealed datagrams (section 4.1) and their keys (section 4.2).

Each direction has its own chain of secrets, one per epoch, of which keys and salts are derived.
"""

from dataclasses import dataclass
from typing import Optional, Tuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from .errors import Malformed, SessionOver
from .replay import ReplayWindow

EXPORTER_LABEL = b"EXTRACTOR-dtls_srtp"
EXPORTED_LENGTH = 88

TYPE_PDU, TYPE_CLOSE, TYPE_PATH, TYPE_BUNDLE = 0x8, 0xB, 0xD, 0xE
HEADER_LENGTH = 12
TAG_LENGTH = 16
OVERHEAD = HEADER_LENGTH + TAG_LENGTH
MOST_INDEX = (1 << 28) - 1

DATAGRAMS_PER_EPOCH = 1 << 22
SECONDS_PER_EPOCH = 120
EPOCHS_AHEAD = 4

_LAST_EPOCH = (1 << 16) - 1
_NUMBER_BITS = 48
_LAST_NUMBER = (1 << _NUMBER_BITS) - 1
_LANE = 0


def roots(exported: bytes) -> Tuple[bytes, bytes]:
    """What the handshake exports, as the roots of the directions: from the DTLS client, from the DTLS server."""
    client_key, server_key = exported[:32], exported[32:64]
    client_salt, server_salt = exported[64:76], exported[76:88]
    return _extract(client_key + client_salt), _extract(server_key + server_salt)


@dataclass(frozen=True, repr=False)
class EpochSecret:
    """The secret of one epoch of one direction."""

    secret: bytes
    epoch: int = 0

    @classmethod
    def first(cls, root: bytes, lane: int = _LANE) -> "EpochSecret":
        """The secret of epoch 0 of a lane. This client sends and receives on lane 0 alone."""
        return cls(_expand(root, b"rhumb/1 lane" + lane.to_bytes(2, "big"), 32))

    def next(self) -> "EpochSecret":
        """The secret of the epoch after this. There is no way back."""
        return EpochSecret(_expand(self.secret, b"rhumb/1 next", 32), self.epoch + 1)

    def keys(self) -> "EpochKeys":
        """Key and salt of this epoch."""
        return EpochKeys(_expand(self.secret, b"rhumb/1 key", 32), _expand(self.secret, b"rhumb/1 salt", 12))


class EpochKeys:
    """Seals and opens in one epoch of one direction."""

    def __init__(self, key: bytes, salt: bytes):
        self._aead = AESGCM(key)
        self.key = key
        self.salt = salt

    def seal(self, header: bytes, plaintext: bytes) -> bytes:
        """Header, ciphertext and tag."""
        return header + self._aead.encrypt(self.nonce(header), plaintext, header)

    def open(self, datagram: bytes) -> Optional[bytes]:
        """The plaintext, or nothing if the datagram is not genuine."""
        header, sealed = datagram[:HEADER_LENGTH], datagram[HEADER_LENGTH:]
        try:
            return self._aead.decrypt(self.nonce(header), sealed, header)
        except InvalidTag:
            return None

    def nonce(self, header: bytes) -> bytes:
        """The salt of the epoch XOR the counter in the header."""
        counter = b"\0" * 4 + header[4:HEADER_LENGTH]
        return bytes(a ^ b for a, b in zip(self.salt, counter))


class Sealer:
    """Our direction. Packet numbers only grow, so no nonce is used twice."""

    def __init__(self, root: bytes, index: int):
        self._secret = EpochSecret.first(root)
        self._keys = self._secret.keys()
        # The session index that the peer chose.
        self._index = index
        self._next_number = 0
        self._epoch_began_at = 0
        self._epoch_first_used: Optional[float] = None

    def seal(self, type_: int, plaintext: bytes, now: float) -> bytes:
        """The next datagram."""
        if self._next_number > _LAST_NUMBER:
            raise SessionOver("no packet number is left")
        self._move_on_when_due(now)
        header = encode_header(type_, self._index, self._secret.epoch, self._next_number)
        self._next_number += 1
        return self._keys.seal(header, plaintext)

    def next_epoch(self) -> None:
        """Leaves the present epoch behind."""
        if self._secret.epoch == _LAST_EPOCH:
            raise SessionOver("no epoch is left")
        self._secret = self._secret.next()
        self._keys = self._secret.keys()
        self._epoch_began_at = self._next_number
        self._epoch_first_used = None

    def _move_on_when_due(self, now: float) -> None:
        if self._epoch_first_used is None:
            self._epoch_first_used = now
        is_full = self._next_number - self._epoch_began_at >= DATAGRAMS_PER_EPOCH
        is_old = now - self._epoch_first_used >= SECONDS_PER_EPOCH
        if is_full or is_old:
            self.next_epoch()
            self._epoch_first_used = now


class Opener:
    """The peer's direction: what opens is from the peer, and is opened once."""

    def __init__(self, root: bytes, index: int):
        self._present = EpochSecret.first(root)
        self._present_keys = self._present.keys()
        self._previous_keys: Optional[EpochKeys] = None
        # The session index that we chose.
        self._index = index
        self._window = ReplayWindow()

    def open(self, datagram: bytes) -> Optional[Tuple[int, bytes]]:
        """Type and plaintext, or nothing if the datagram is to be dropped."""
        try:
            type_, index, epoch, number = read_header(datagram)
        except Malformed:
            return None
        if index != self._index or not self._window.is_new(number):
            return None
        plaintext = self._open_in(epoch, datagram)
        if plaintext is None:
            return None
        self._window.record(number)
        return type_, plaintext

    def _open_in(self, epoch: int, datagram: bytes) -> Optional[bytes]:
        ahead = epoch - self._present.epoch
        if ahead == 0:
            return self._present_keys.open(datagram)
        if ahead == -1 and self._previous_keys is not None:
            return self._previous_keys.open(datagram)
        if not 0 < ahead <= EPOCHS_AHEAD:
            return None
        secret, previous_keys = self._present, self._present_keys
        for _ in range(ahead):
            previous_keys, secret = secret.keys(), secret.next()
        keys = secret.keys()
        plaintext = keys.open(datagram)
        # Anybody can write a high epoch into a header. Only the peer can seal in it.
        if plaintext is not None:
            self._present, self._present_keys, self._previous_keys = secret, keys, previous_keys
        return plaintext


def encode_header(type_: int, index: int, epoch: int, number: int) -> bytes:
    """The clear bytes of a sealed datagram."""
    return (type_ << 28 | index).to_bytes(4, "big") + (epoch << _NUMBER_BITS | number).to_bytes(8, "big")


class PathMessage:
    """Asks whether datagrams to an address arrive, or answers that they do; zero stands for neither."""

    LENGTH = 16

    def __init__(self, challenge: int = 0, answer: int = 0, padding: int = 0):
        self.challenge = challenge
        self.answer = answer
        # Bytes behind a challenge: whether a datagram of that size arrives (section 4.6).
        self.padding = padding

    def encode(self) -> bytes:
        """The plaintext of a path message."""
        return self.challenge.to_bytes(8, "big") + self.answer.to_bytes(8, "big") + bytes(self.padding)

    @classmethod
    def parse(cls, plaintext: bytes) -> "PathMessage":
        """Reads a path message that says something."""
        padding = plaintext[cls.LENGTH :]
        if len(plaintext) < cls.LENGTH or not any(plaintext) or any(padding):
            raise Malformed("path message")
        challenge = int.from_bytes(plaintext[:8], "big")
        answer = int.from_bytes(plaintext[8 : cls.LENGTH], "big")
        if padding and (answer or not challenge):
            raise Malformed("path message: padding")
        return cls(challenge, answer, len(padding))


def read_header(datagram: bytes) -> Tuple[int, int, int, int]:
    """Type, session index, epoch and packet number of a sealed datagram."""
    if len(datagram) < OVERHEAD:
        raise Malformed("sealed datagram: too short")
    first = int.from_bytes(datagram[:4], "big")
    counter = int.from_bytes(datagram[4:HEADER_LENGTH], "big")
    type_ = first >> 28
    if type_ not in (TYPE_PDU, TYPE_CLOSE, TYPE_PATH, TYPE_BUNDLE):
        raise Malformed("sealed datagram: type")
    return type_, first & MOST_INDEX, counter >> _NUMBER_BITS, counter & _LAST_NUMBER


def _extract(material: bytes) -> bytes:
    mac = hmac.HMAC(b"rhumb/1 root", hashes.SHA256())
    mac.update(material)
    return mac.finalize()


def _expand(secret: bytes, info: bytes, length: int) -> bytes:
    return HKDFExpand(hashes.SHA256(), length, info).derive(secret)
