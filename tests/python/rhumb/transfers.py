"""Files (section 9.1): what is said of one on the stream that it goes over. The stream itself takes a QUIC stack."""

import hashlib
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
    kind: int = 0

    def encode(self) -> bytes:
        """The first bytes of the stream."""
        name = self.name.encode()
        head = self.transfer.to_bytes(8, "big") + bytes([self.kind]) + self.length.to_bytes(7, "big")
        return head + self.sha256 + bytes([len(name)]) + name

    @classmethod
    def parse(cls, octets: bytes) -> "Offer":
        """Reads the first bytes of a stream."""
        reader = Reader(octets, "offer")
        transfer, kind, length, sha256 = reader.integer(8), reader.integer(1), reader.integer(7), reader.take(32)
        if kind > 3 or (kind == 2 and length):
            raise Malformed("offer: neither a file, nor a folder, nor what has no end yet")
        name = checked_file_name(reader.take(reader.integer(1)))
        reader.end()
        return cls(transfer, length, sha256, name, kind)


@dataclass(frozen=True)
class Entry:
    """What is in a folder: kind 0 is a folder, 1 a file, 2 one that may be executed; 2 more with a SHA-256."""

    path: str
    kind: int
    length: int
    sha256: bytes = b""


@dataclass(frozen=True)
class Listing:
    """What the content of a folder begins with, without its length."""

    entries: tuple

    def encode(self) -> bytes:
        """The list."""
        parts = []
        for entry in self.entries:
            path = entry.path.encode()
            head = bytes([entry.kind]) + entry.length.to_bytes(8, "big") + len(path).to_bytes(2, "big")
            parts.append(head + path + entry.sha256)
        return b"".join(parts)

    @classmethod
    def parse(cls, octets: bytes) -> "Listing":
        """Reads a list, and refuses what leads out of its folder."""
        reader = Reader(octets, "list of a folder")
        entries, folders, last, total = [], {()}, (), 0
        if len(octets) > 1 << 24:
            raise Malformed("list of a folder: too long")
        while reader.left():
            kind, length, path = reader.integer(1), reader.integer(8), reader.vector(2)
            names = tuple(checked_file_name(name).encode() for name in path.split(b"/"))
            if kind > 4 or (kind == 0 and length) or len(path) > 1024 or len(names) > 32:
                raise Malformed("list of a folder: an entry that there is not")
            sha256 = reader.take(32) if kind > 2 else b""
            if sha256 and not length and sha256 != hashlib.sha256().digest():
                raise Malformed("list of a folder: nothing has another SHA-256")
            if names <= last or names[:-1] not in folders:
                raise Malformed("list of a folder: out of order, or outside")
            if kind == 0:
                folders.add(names)
            last, total = names, total + length
            entries.append(Entry(path.decode(), kind, length, sha256))
        if len({bool(entry.sha256) for entry in entries if entry.kind}) > 1:
            raise Malformed("list of a folder: a SHA-256 of some files alone")
        if len(entries) > 1 << 16 or total >= (1 << 56) - (1 << 25):
            raise Malformed("list of a folder: too much")
        return cls(tuple(entries))


@dataclass(frozen=True)
class Held:
    """Which files of a list a receiver has, and how much of the one that is sent first."""

    first: int
    there: int
    whole: tuple

    def encode(self) -> bytes:
        """What the receiver says."""
        bits = [sum(0x80 >> at for at in range(8) if self.whole[start + at:start + at + 1] == (True,))
                for start in range(0, len(self.whole), 8)]
        return self.first.to_bytes(4, "big") + self.there.to_bytes(8, "big") + bytes(bits)

    @classmethod
    def parse(cls, octets: bytes, lengths: tuple) -> "Held":
        """Reads what is said of files of these lengths."""
        reader = Reader(octets, "files that are there")
        first, there, bits = reader.integer(4), reader.integer(8), reader.take((len(lengths) + 7) // 8)
        reader.end()
        whole = tuple(bool(bits[at // 8] & 0x80 >> at % 8) for at in range(8 * len(bits)))
        whole, spare = whole[:len(lengths)], whole[len(lengths):]
        if any(spare) or not all(is_whole or length for is_whole, length in zip(whole, lengths)):
            raise Malformed("files that are there: bits that cannot be")
        if all(whole) and (first or there):
            raise Malformed("files that are there: more than all")
        if not all(whole) and (first >= len(whole) or whole[first] or there >= lengths[first]):
            raise Malformed("files that are there: no file begins so")
        return cls(first, there, whole)


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
