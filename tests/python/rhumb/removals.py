"""Removals (section 3.1): a domain takes back what made a name its member."""

from dataclasses import dataclass
from typing import Optional, Tuple

from . import certificates
from .certificates import ADMIT, REMOVAL, Certificate
from .errors import Malformed
from .memberships import LONGEST_S, MOST_CERTIFICATES, Membership
from .metadata import ROLE_DOMAIN, Metadata
from .names import Name
from .reader import Reader
from .rib import encode_metadata, read_metadata


@dataclass(frozen=True)
class Removal:
    """A certificate by the last of these issuers, behind those by which it may admit others."""

    issuers: Tuple[Metadata, ...]
    certificates: Tuple[Certificate, ...]

    @property
    def said(self) -> Certificate:
        """The removal itself."""
        return self.certificates[-1]

    @property
    def removed(self) -> Name:
        """Who is a member no longer."""
        assert self.said.subject is not None
        return self.said.subject

    @property
    def authority(self) -> Optional[Membership]:
        """As what its issuer may admit others; none for the domain itself."""
        rest = self.issuers[:-1], self.certificates[:-1]
        return Membership.of(*rest) if rest[0] or rest[1] else None

    def encode(self) -> bytes:
        """The removal as it travels."""
        return encode_metadata(self.issuers) + certificates.encode_list(self.certificates)

    def verify(self, now_s: float) -> None:
        """Refuses what nobody signed, or what does not hold at ``now_s``. When the authority ended says nothing."""
        self.said.check_window(now_s)
        self.said.check_sequence(now_s)
        for certificate, issuer in zip(self.certificates, self.issuers):
            certificate.verify(issuer)

    def counts_against(self, membership: Membership) -> bool:
        """Whether the membership counts no longer."""
        issuers = [certificate.issuer for certificate in membership.certificates]
        if self.said.issuer not in issuers:
            return False
        below = membership.certificates[issuers.index(self.said.issuer):]
        return any(it.subject == self.removed and it.sequence <= self.said.sequence for it in below)

    @classmethod
    def parse(cls, data: bytes) -> "Removal":
        """Reads bytes that are exactly one removal. Signatures are for ``verify``."""
        reader = Reader(data, "removal")
        removal = cls(tuple(read_metadata(reader)), tuple(certificates.read_list(reader)))
        reader.end()
        removal._check_structure()
        return removal

    def _check_structure(self) -> None:
        if not self.issuers or not 1 <= len(self.certificates) <= MOST_CERTIFICATES:
            raise Malformed("removal: length")
        said, issuer, authority = self.said, self.issuers[-1].name(), self.authority
        if said.type != REMOVAL or said.issuer != issuer:
            raise Malformed("removal: its last certificate is another")
        if authority is None:
            above = [issuer]
            may = self.issuers[0].role == ROLE_DOMAIN
        else:
            above = [*(certificate.issuer for certificate in authority.certificates), issuer]
            may = authority.member == issuer and bool(authority.rights & ADMIT)
        if not may or self.removed in above:
            raise Malformed("removal: not for its issuer to say")
        if said.not_after_s - said.not_before_s > LONGEST_S:
            raise Malformed("removal: lasts too long")
