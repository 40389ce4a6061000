"""Metadata (section 1): what a name is the hash of. One meaning has one encoding, so a name has one pre-image."""

import hashlib
import re
from dataclasses import dataclass
from typing import Tuple, Union

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils

from .errors import Malformed, Untrusted
from .names import Name
from .reader import Reader

ROLE_NODE, ROLE_ROUTER, ROLE_RIB, ROLE_DOMAIN, ROLE_CAPSULE = range(1, 6)
KEY_P256, KEY_ED25519 = 1, 2

_MAGIC_AND_VERSION = b"RM\x01"
_KEY_LENGTHS = {KEY_P256: 33, KEY_ED25519: 32}
_MOST_ATTRIBUTES = 8
_LONGEST_VALUE = 64
_ATTRIBUTE_KEY = re.compile(rb"[a-z0-9-]{1,32}")

PublicKey = Union[ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey]


@dataclass(frozen=True)
class Metadata:
    """Who a name belongs to: a role, a public key, a time, and a few words."""

    role: int
    algorithm: int
    key: bytes
    created_s: int
    attributes: Tuple[Tuple[str, str], ...] = ()

    def encode(self) -> bytes:
        """The canonical encoding."""
        parts = [_MAGIC_AND_VERSION, bytes([self.role, self.algorithm]), self.key]
        parts += [self.created_s.to_bytes(8, "big"), bytes([len(self.attributes)])]
        for key, value in self.attributes:
            for text in (key.encode(), value.encode()):
                parts += [bytes([len(text)]), text]
        return b"".join(parts)

    @classmethod
    def parse(cls, data: bytes) -> "Metadata":
        """Reads the canonical encoding and refuses everything else."""
        reader = Reader(data, "metadata")
        reader.expect(_MAGIC_AND_VERSION, "not version 1")
        role = reader.integer(1)
        if not ROLE_NODE <= role <= ROLE_CAPSULE:
            raise Malformed("metadata: role")
        algorithm = reader.integer(1)
        if algorithm not in _KEY_LENGTHS:
            raise Malformed("metadata: key algorithm")
        key = reader.take(_KEY_LENGTHS[algorithm])
        created_s = reader.integer(8)
        count = reader.integer(1)
        if count > _MOST_ATTRIBUTES:
            raise Malformed("metadata: too many attributes")
        attributes = tuple(_read_attribute(reader) for _ in range(count))
        reader.end()
        keys = [key for key, _ in attributes]
        if keys != sorted(set(keys)):
            raise Malformed("metadata: attributes out of order")
        metadata = cls(role, algorithm, key, created_s, attributes)
        metadata.public_key()
        return metadata

    def name(self) -> Name:
        """The name that these metadata are the pre-image of."""
        return Name(hashlib.sha256(self.encode()).digest())

    def public_key(self) -> PublicKey:
        """The key, if it is one."""
        try:
            if self.algorithm == KEY_P256:
                if self.key[0] not in (2, 3):
                    raise ValueError("not compressed")
                return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), self.key)
            return ed25519.Ed25519PublicKey.from_public_bytes(self.key)
        except ValueError as error:
            raise Malformed("metadata: public key") from error

    def verify(self, signature: bytes, message: bytes) -> None:
        """Refuses a 64-byte signature that the holder of the key did not make over ``message``."""
        key = self.public_key()
        try:
            if isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(signature, message)
            else:
                r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
                der = utils.encode_dss_signature(r, s)
                key.verify(der, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as error:
            raise Untrusted(f"signature is not by {self.name()}") from error


def _read_attribute(reader: Reader) -> Tuple[str, str]:
    key = reader.vector(1)
    if not _ATTRIBUTE_KEY.fullmatch(key):
        raise Malformed("metadata: attribute key")
    value = reader.vector(1)
    if len(value) > _LONGEST_VALUE:
        raise Malformed("metadata: attribute value too long")
    try:
        return key.decode(), value.decode()
    except UnicodeDecodeError as error:
        raise Malformed("metadata: attribute value is not UTF-8") from error
