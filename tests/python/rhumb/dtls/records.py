"""DTLS records (RFC 6347 section 4.1) and AES-GCM in them (RFC 5288)."""

from dataclasses import dataclass
from typing import Iterator, Optional

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..replay import ReplayWindow

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23
HEADER_LENGTH = 13

_DTLS_1_0 = b"\xfe\xff"
DTLS_1_2 = b"\xfe\xfd"
_EXPLICIT_NONCE_LENGTH = 8
_TAG_LENGTH = 16


@dataclass(frozen=True)
class Record:
    """One record, still sealed if its epoch is 1."""

    type: int
    # 16 bits epoch, 48 bits sequence number.
    counter: int
    payload: bytes

    @property
    def epoch(self) -> int:
        """0 before ChangeCipherSpec, 1 after it."""
        return self.counter >> 48

    def encode(self) -> bytes:
        """The record as it travels."""
        header = bytes([self.type]) + DTLS_1_2 + self.counter.to_bytes(8, "big")
        return header + len(self.payload).to_bytes(2, "big") + self.payload


def split(datagram: bytes) -> Iterator[Record]:
    """The records of a datagram, up to the first that makes no sense."""
    while len(datagram) >= HEADER_LENGTH:
        version = datagram[1:3]
        end = HEADER_LENGTH + int.from_bytes(datagram[11:13], "big")
        if version not in (_DTLS_1_0, DTLS_1_2) or end > len(datagram):
            return
        yield Record(datagram[0], int.from_bytes(datagram[3:11], "big"), datagram[HEADER_LENGTH:end])
        datagram = datagram[end:]


class RecordSealer:
    """Seals our records of epoch 1."""

    def __init__(self, key: bytes, implicit_nonce: bytes):
        self._aead = AESGCM(key)
        self._implicit_nonce = implicit_nonce

    def seal(self, record: Record) -> Record:
        """The same record with its payload sealed. The counter serves as the explicit part of the nonce."""
        explicit_nonce = record.counter.to_bytes(_EXPLICIT_NONCE_LENGTH, "big")
        associated = _associated_data(record, len(record.payload))
        sealed = self._aead.encrypt(self._implicit_nonce + explicit_nonce, record.payload, associated)
        return Record(record.type, record.counter, explicit_nonce + sealed)


class RecordOpener:
    """Opens the peer's records of epoch 1, each once."""

    def __init__(self, key: bytes, implicit_nonce: bytes):
        self._aead = AESGCM(key)
        self._implicit_nonce = implicit_nonce
        self._window = ReplayWindow()

    def open(self, record: Record) -> Optional[bytes]:
        """The payload, or nothing if the record is to be dropped."""
        length = len(record.payload) - _EXPLICIT_NONCE_LENGTH - _TAG_LENGTH
        if length < 0 or not self._window.is_new(record.counter):
            return None
        explicit_nonce = record.payload[:_EXPLICIT_NONCE_LENGTH]
        sealed = record.payload[_EXPLICIT_NONCE_LENGTH:]
        try:
            payload = self._aead.decrypt(
                self._implicit_nonce + explicit_nonce, sealed, _associated_data(record, length)
            )
        except InvalidTag:
            return None
        self._window.record(record.counter)
        return payload


def _associated_data(record: Record, length: int) -> bytes:
    return record.counter.to_bytes(8, "big") + bytes([record.type]) + DTLS_1_2 + length.to_bytes(2, "big")
