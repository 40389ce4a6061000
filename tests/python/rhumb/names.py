"""Names (section 1): 32 bytes, the SHA-256 of metadata. Their text is 52 characters of lower-case base32."""

import base64
import binascii
from dataclasses import dataclass

from .errors import Malformed

NAME_LENGTH = 32
TEXT_LENGTH = 52


@dataclass(frozen=True, order=True)
class Name:
    """Who is meant, wherever they are."""

    octets: bytes

    def __post_init__(self) -> None:
        if len(self.octets) != NAME_LENGTH:
            raise Malformed("name: not 32 bytes")

    @classmethod
    def from_text(cls, text: str) -> "Name":
        """Reads the one spelling of a name and refuses every other."""
        if len(text) != TEXT_LENGTH:
            raise Malformed("name: not 52 characters")
        try:
            name = cls(base64.b32decode(text.upper() + "===="))
        except (binascii.Error, ValueError) as error:
            raise Malformed("name: not base32") from error
        # Catches capitals and spare bits that are not zero.
        if str(name) != text:
            raise Malformed("name: not its one spelling")
        return name

    def __str__(self) -> str:
        return base64.b32encode(self.octets).decode().rstrip("=").lower()
