"""Sealed records of DTLS 1.3 (RFC 9147 section 4). Those of epoch 0 are as in DTLS 1.2."""

from typing import Iterator, Optional, Tuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ..replay import ReplayWindow
from . import records
from .keys13 import TrafficSecret

ACK = 26
HANDSHAKE_EPOCH, APPLICATION_EPOCH = 2, 3

# 0 0 1, no connection id, 16 bits of sequence number, with length, 2 bits of epoch.
_FIRST_BYTE = 0b0010_1100
_HAS_CONNECTION_ID, _HAS_LONG_NUMBER, _HAS_LENGTH, _EPOCH_BITS = 0b1_0000, 0b1000, 0b0100, 0b11
_TAG_LENGTH = 16
_SAMPLE_LENGTH = 16


def split(datagram: bytes) -> Iterator[bytes]:
    """The records of a datagram, sealed ones and others, up to the first that makes no sense."""
    while datagram:
        length = _record_length(datagram)
        if length is None or length > len(datagram):
            return
        yield datagram[:length]
        datagram = datagram[length:]


def is_sealed(record: bytes) -> bool:
    """Whether a record has the unified header."""
    return record[0] >> 5 == _FIRST_BYTE >> 5


def epoch_bits(record: bytes) -> int:
    """The low bits of a sealed record's epoch; a handshake has no two epochs that share them."""
    return record[0] & _EPOCH_BITS


def _record_length(datagram: bytes) -> Optional[int]:
    if not is_sealed(datagram):
        if len(datagram) < records.HEADER_LENGTH:
            return None
        return records.HEADER_LENGTH + int.from_bytes(datagram[11:13], "big")
    if datagram[0] & _HAS_CONNECTION_ID:
        return None
    if not datagram[0] & _HAS_LENGTH:
        return len(datagram)
    header_length = _header_length(datagram[0])
    return header_length + int.from_bytes(datagram[header_length - 2:header_length], "big")


def _header_length(first_byte: int) -> int:
    return 1 + _number_length(first_byte) + (2 if first_byte & _HAS_LENGTH else 0)


def _number_length(first_byte: int) -> int:
    return 2 if first_byte & _HAS_LONG_NUMBER else 1


class _Protection:
    def __init__(self, secret: TrafficSecret):
        self._aead = AESGCM(secret.key())
        self._nonce = secret.nonce()
        self._sequence_numbers = Cipher(algorithms.AES(secret.sequence_number_key()), modes.ECB())

    def nonce(self, number: int) -> bytes:
        # Without the epoch, unlike in DTLS 1.2.
        return bytes(a ^ b for a, b in zip(self._nonce, number.to_bytes(len(self._nonce), "big")))

    def hide(self, number: bytes, ciphertext: bytes) -> bytes:
        """Hides the number in the header, or shows it again."""
        encryptor = self._sequence_numbers.encryptor()
        mask = encryptor.update(ciphertext[:_SAMPLE_LENGTH])
        return bytes(a ^ b for a, b in zip(number, mask))


class RecordSealer(_Protection):
    """Seals our records of one epoch."""

    def __init__(self, secret: TrafficSecret, epoch: int):
        super().__init__(secret)
        self._first_byte = _FIRST_BYTE | epoch & _EPOCH_BITS
        self._next_number = 0

    def seal(self, type_: int, payload: bytes) -> bytes:
        """The record as it travels."""
        number = self._next_number
        self._next_number += 1
        plaintext = payload + bytes([type_])
        length = (len(plaintext) + _TAG_LENGTH).to_bytes(2, "big")
        shown = (number & 0xFFFF).to_bytes(2, "big")
        first = bytes([self._first_byte])
        ciphertext = self._aead.encrypt(self.nonce(number), plaintext, first + shown + length)
        return first + self.hide(shown, ciphertext) + length + ciphertext


class RecordOpener(_Protection):
    """Opens the peer's records of one epoch, each once."""

    def __init__(self, secret: TrafficSecret):
        super().__init__(secret)
        self._window = ReplayWindow()
        self._expected = 0

    def open(self, record: bytes) -> Optional[Tuple[int, bytes]]:
        """Type and payload, or nothing if the record is to be dropped."""
        header_length = _header_length(record[0])
        ciphertext = record[header_length:]
        if len(ciphertext) < _SAMPLE_LENGTH:
            return None
        number_end = 1 + _number_length(record[0])
        shown = self.hide(record[1:number_end], ciphertext)
        number = self._whole_number(shown)
        if not self._window.is_new(number):
            return None
        header = record[:1] + shown + record[number_end:header_length]
        try:
            plaintext = self._aead.decrypt(self.nonce(number), ciphertext, header)
        except InvalidTag:
            return None
        self._window.record(number)
        self._expected = max(self._expected, number + 1)
        # The type is the last byte that is not padding.
        content = plaintext.rstrip(b"\0")
        return (content[-1], content[:-1]) if content else None

    def _whole_number(self, shown: bytes) -> int:
        """The number nearest to the one that is expected, of those that end like this."""
        span = 1 << 8 * len(shown)
        number = self._expected - self._expected % span + int.from_bytes(shown, "big")
        if number > self._expected + span // 2 and number >= span:
            return number - span
        if number + span // 2 <= self._expected:
            return number + span
        return number
