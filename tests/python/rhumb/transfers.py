"""Files (section 9.1): what is said of one on the stream that it goes over. The stream itself takes a QUIC stack."""

import unicodedata
from dataclasses import dataclass

from .errors import Malformed
from .reader import Reader

# Those of writing direction, and the separators of lines and paragraphs.
_TEXT_CONTROLS = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Offer:
    """How a file's stream begins."""

    transfer: int
    length: int
    sha256: bytes
    name: str

    def encode(self) -> bytes:
        """The first bytes of the stream."""
        name = self.name.encode()
        head = self.transfer.to_bytes(8, "big") + self.length.to_bytes(8, "big") + self.sha256
        return head + bytes([len(name)]) + name

    @classmethod
    def parse(cls, octets: bytes) -> "Offer":
        """Reads the first bytes of a stream."""
        reader = Reader(octets, "offer")
        transfer, length, sha256 = reader.integer(8), reader.integer(8), reader.take(32)
        name = checked_file_name(reader.take(reader.integer(1)))
        reader.end()
        return cls(transfer, length, sha256, name)


def checked_file_name(octets: bytes) -> str:
    """A name that stays inside one folder and does nothing to a terminal."""
    try:
        name = octets.decode()
    except UnicodeDecodeError as error:
        raise Malformed("file name: not UTF-8") from error
    has_controls = any(unicodedata.category(c) == "Cc" or c in _TEXT_CONTROLS for c in name)
    if name in ("", ".", "..") or "/" in name or "\\" in name or has_controls or len(octets) > 255:
        raise Malformed("file name: not one that may travel")
    return name
