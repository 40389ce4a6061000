"""Extensions of hellos, as both versions use them."""

from typing import Dict

from ..errors import Malformed
from ..reader import Reader

SUPPORTED_GROUPS, EC_POINT_FORMATS, SIGNATURE_ALGORITHMS, USE_SRTP = 10, 11, 13, 14
EXTENDED_MASTER_SECRET, RENEGOTIATION_INFO = 23, 0xFF01
SUPPORTED_VERSIONS, COOKIE, KEY_SHARE = 43, 44, 51

SECP256R1 = b"\x00\x17"
ECDSA_SECP256R1_SHA256 = b"\x04\x03"
# One profile, SRTP_AEAD_AES_256_GCM (RFC 7714), and no MKI.
SRTP_PROFILE = b"\x00\x02" + b"\x00\x08" + b"\x00"


def vector(content: bytes, length_size: int) -> bytes:
    """Bytes, preceded by their length."""
    return len(content).to_bytes(length_size, "big") + content


def encode(extensions: Dict[int, bytes]) -> bytes:
    """The extensions of a hello."""
    encoded = (kind.to_bytes(2, "big") + vector(content, 2) for kind, content in extensions.items())
    return vector(b"".join(encoded), 2)


def parse(data: bytes) -> Dict[int, bytes]:
    """Extensions by their kind, each of which occurs at most once."""
    reader = Reader(data, "extensions")
    extensions: Dict[int, bytes] = {}
    while reader.left():
        kind = reader.integer(2)
        if kind in extensions:
            raise Malformed("extensions: one occurs twice")
        extensions[kind] = reader.vector(2)
    return extensions
