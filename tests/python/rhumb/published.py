"""Names that an owner publishes under its own (section 2.1)."""

import re
from dataclasses import dataclass
from typing import Dict

from .certificates import CLOCK_SKEW_S, PUBLISHED_NAMES, SIGNATURE_LENGTH, SIGNED_PREFIX, VERSION
from .errors import Malformed, Untrusted
from .identity import Identity
from .metadata import Metadata
from .names import NAME_LENGTH, Name
from .reader import Reader

MOST_LABELS = 24
MOST_BYTES = 1000
LONGEST_S = 30 * 24 * 60 * 60

_LABEL = re.compile(rb"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True)
class PublishedNames:
    """The whole list of what names are called under their owner's."""

    sequence: int
    not_before_s: int
    not_after_s: int
    owner: Name
    names: Dict[str, Name]
    signature: bytes = bytes(SIGNATURE_LENGTH)

    def encode(self) -> bytes:
        """The list as it travels."""
        return self._statement() + self.signature

    def sign(self, identity: Identity) -> "PublishedNames":
        """The same list, signed."""
        signature = identity.sign(SIGNED_PREFIX + self._statement())
        return PublishedNames(**{**self.__dict__, "signature": signature})

    def verify(self, owner: Metadata, now_s: float) -> None:
        """Refuses a list that its owner did not sign, or that does not hold at ``now_s``."""
        if self.not_after_s - self.not_before_s > LONGEST_S:
            raise Untrusted("published names: last too long")
        if not self.not_before_s - CLOCK_SKEW_S <= now_s <= self.not_after_s + CLOCK_SKEW_S:
            raise Untrusted("published names: do not hold now")
        if owner.name() != self.owner:
            raise Untrusted("published names: these are not the owner's metadata")
        owner.verify(self.signature, SIGNED_PREFIX + self._statement())

    def _statement(self) -> bytes:
        parts = [bytes([VERSION, PUBLISHED_NAMES, 0, 0])]
        parts += [n.to_bytes(8, "big") for n in (self.sequence, self.not_before_s, self.not_after_s)]
        parts += [self.owner.octets, bytes([len(self.names)])]
        for label, name in sorted((label.encode("ascii"), name) for label, name in self.names.items()):
            parts += [bytes([len(label)]), label, name.octets]
        return b"".join(parts)

    @classmethod
    def read(cls, reader: Reader) -> "PublishedNames":
        """Reads one list; the number of labels tells where it ends."""
        reader.expect(bytes([VERSION, PUBLISHED_NAMES, 0, 0]), "head of published names")
        sequence, not_before_s, not_after_s = (reader.integer(8) for _ in range(3))
        if not_after_s < not_before_s:
            raise Malformed("published names: end before they begin")
        owner, count = Name(reader.take(NAME_LENGTH)), reader.integer(1)
        if count > MOST_LABELS:
            raise Malformed("published names: too many")
        names: Dict[str, Name] = {}
        last = b""
        for _ in range(count):
            label = reader.vector(1)
            if not _LABEL.fullmatch(label) or label <= last:
                raise Malformed("published names: label")
            names[label.decode("ascii")] = Name(reader.take(NAME_LENGTH))
            last = label
        published = cls(sequence, not_before_s, not_after_s, owner, names, reader.take(SIGNATURE_LENGTH))
        if len(published.encode()) > MOST_BYTES:
            raise Malformed("published names: too long")
        return published

    @classmethod
    def parse(cls, data: bytes) -> "PublishedNames":
        """Reads bytes that are exactly one list. Its signature is for ``verify``."""
        reader = Reader(data, "published names")
        published = cls.read(reader)
        reader.end()
        return published
