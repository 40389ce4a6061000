"""Memberships (section 3.1): what a trust domain says of a name, with all that it takes to verify that."""

from dataclasses import dataclass
from typing import Sequence, Tuple

from . import certificates
from .certificates import ADMIT, MEMBER, Certificate, Limits
from .errors import Malformed, Untrusted
from .metadata import ROLE_DOMAIN, Metadata
from .names import Name
from .reader import Reader
from .rib import encode_metadata, read_metadata

MOST_CERTIFICATES = 4
LONGEST_S = 366 * 24 * 60 * 60


@dataclass(frozen=True)
class Membership:
    """Certificates that lead from a domain to a member, and their issuers' metadata."""

    issuers: Tuple[Metadata, ...]
    certificates: Tuple[Certificate, ...]

    @property
    def domain(self) -> Name:
        """Whose member it is."""
        return self.certificates[0].issuer

    @property
    def member(self) -> Name:
        """Who belongs to it."""
        subject = self.certificates[-1].subject
        assert subject is not None
        return subject

    @property
    def rights(self) -> int:
        """What the member may do."""
        return self.certificates[-1].rights or 0

    @property
    def limits(self) -> Limits:
        """And how much of it."""
        return self.certificates[-1].limits

    def encode(self) -> bytes:
        """The membership as it travels."""
        return encode_metadata(self.issuers) + certificates.encode_list(self.certificates)

    def verify(self, name: Name, now_s: float) -> None:
        """Refuses what does not make ``name`` a member at ``now_s``."""
        if name != self.member:
            raise Untrusted("membership: it is another name's")
        for certificate, issuer in zip(self.certificates, self.issuers):
            certificate.check_window(now_s)
            certificate.check_sequence(now_s)
            certificate.verify(issuer)

    @classmethod
    def parse(cls, data: bytes) -> "Membership":
        """Reads bytes that are exactly one membership. Signatures are for ``verify``."""
        reader = Reader(data, "membership")
        issuers, listed = read_metadata(reader), certificates.read_list(reader)
        reader.end()
        return cls.of(issuers, listed)

    @classmethod
    def load(cls, path: str) -> "Membership":
        """Reads a file that ``rhumb domain admit`` wrote: lines of a key and a value, of which one is all that counts."""
        with open(path, encoding="ascii") as file:
            first, *lines = file.read().splitlines()
        values = dict(line.partition(" ")[::2] for line in lines)
        if first != "rhumb-membership 1" or "membership" not in values:
            raise Malformed("membership: not a file of one")
        return cls.parse(bytes.fromhex(values["membership"]))

    @classmethod
    def of(cls, issuers: Sequence[Metadata], listed: Sequence[Certificate]) -> "Membership":
        """Takes what was read for a membership, or refuses it."""
        _check_structure(issuers, listed)
        return cls(tuple(issuers), tuple(listed))


def _check_structure(issuers: Sequence[Metadata], listed: Sequence[Certificate]) -> None:
    if not 1 <= len(listed) <= MOST_CERTIFICATES or len(issuers) != len(listed):
        raise Malformed("membership: length")
    if issuers[0].role != ROLE_DOMAIN:
        raise Malformed("membership: its first issuer is no domain")
    names = [issuers[0].name()]
    given, within = None, None
    for certificate, issuer in zip(listed, issuers):
        subject, rights = certificate.subject, certificate.rights
        if certificate.type != MEMBER or subject is None or rights is None or subject in names:
            raise Malformed("membership: a certificate of another type, or a circle")
        if certificate.issuer != names[-1] or issuer.name() != names[-1]:
            raise Malformed("membership: not one after the other")
        if given is not None and not (given & ADMIT and given & rights == rights):
            raise Malformed("membership: more than its giver has")
        if within is not None and not certificate.limits.within(within):
            raise Malformed("membership: wider than its giver has")
        if certificate.not_after_s - certificate.not_before_s > LONGEST_S:
            raise Malformed("membership: lasts too long")
        names.append(subject)
        given, within = rights, certificate.limits
