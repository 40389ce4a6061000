"""An identity: a P-256 key and the metadata that make it a name.

In the handshake (section 4.3) it is shown as a self-signed X.509 certificate that holds the metadata in an extension.
"""

import datetime
import os
import time
from dataclasses import dataclass
from typing import Optional

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID

from .errors import Malformed, Untrusted
from .metadata import KEY_P256, ROLE_NODE, Metadata
from .names import Name

METADATA_EXTENSION = x509.ObjectIdentifier("2.25.74088145")
MEMBERSHIP_EXTENSION = x509.ObjectIdentifier("2.25.74088146")


@dataclass(frozen=True, repr=False)
class Identity:
    """A key, and who it makes its holder."""

    key: ec.EllipticCurvePrivateKey
    metadata: Metadata
    # What it shows of a trust domain, encoded.
    membership: Optional[bytes] = None

    @classmethod
    def generate(cls, role: int = ROLE_NODE, label: Optional[str] = None) -> "Identity":
        """A fresh key and metadata for it."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = (("label", label),) if label else ()
        return cls(key, Metadata(role, KEY_P256, compressed(key.public_key()), int(time.time()), attributes))

    @property
    def name(self) -> Name:
        """Who the holder is."""
        return self.metadata.name()

    def sign(self, message: bytes) -> bytes:
        """ECDSA with SHA-256, as ``r || s``."""
        r, s = utils.decode_dss_signature(self.key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def x509(self) -> bytes:
        """The self-signed certificate for the handshake, in DER."""
        return self_signed(self.key, self.metadata.encode(), self.membership)

    def save(self, path: str) -> None:
        """Writes key and metadata to a new file that only its owner reads."""
        pem = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(self.metadata.encode().hex() + "\n" + pem.decode())

    @classmethod
    def load(cls, path: str) -> "Identity":
        """Reads what ``save`` wrote."""
        with open(path, encoding="ascii") as file:
            metadata = Metadata.parse(bytes.fromhex(file.readline().strip()))
            key = serialization.load_pem_private_key(file.read().encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or compressed(key.public_key()) != metadata.key:
            raise Malformed("identity: the key is not that of the metadata")
        return cls(key, metadata)


def self_signed(
    key: ec.EllipticCurvePrivateKey, metadata: bytes, membership: Optional[bytes] = None
) -> bytes:
    """A self-signed certificate that holds ``metadata``. Nobody looks at its names and dates."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rhumb")])
    day = datetime.timedelta(days=1)
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + 3650 * day)
        .add_extension(x509.UnrecognizedExtension(METADATA_EXTENSION, metadata), critical=False)
    )
    if membership is not None:
        shown = x509.UnrecognizedExtension(MEMBERSHIP_EXTENSION, membership)
        builder = builder.add_extension(shown, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def identify(der: bytes) -> Metadata:
    """Who shows this certificate, once the handshake has proven that they hold its key."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        extension = certificate.extensions.get_extension_for_oid(METADATA_EXTENSION)
        key = certificate.public_key()
    except (ValueError, x509.ExtensionNotFound) as error:
        raise Untrusted("the peer's certificate holds no metadata") from error
    if not isinstance(extension.value, x509.UnrecognizedExtension):
        raise Untrusted("the peer's certificate holds no metadata")
    metadata = Metadata.parse(extension.value.value)
    if not isinstance(key, ec.EllipticCurvePublicKey) or compressed(key) != metadata.key:
        raise Untrusted("the key of the peer's certificate is not that of its metadata")
    return metadata


def compressed(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key as a SEC 1 compressed point."""
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
