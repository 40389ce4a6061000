"""Certificates (section 2): signed statements about who may carry for whom, and until when."""

import ipaddress
import threading
import time
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

from .errors import Malformed, Untrusted
from .identity import Identity
from .metadata import Metadata
from .names import NAME_LENGTH, Name
from .reader import Reader

ROUTE, LOCATOR, WITHDRAWAL, ABSENCE, SERVICE, MEMBER, REMOVAL = 1, 2, 3, 4, 5, 6, 7
# A list of names (section 2.1), which is no certificate.
PUBLISHED_NAMES = 8
# The rights of a member of a trust domain, a bit each.
JOIN, CARRY, PUBLISH, ADMIT, SERVE = 1, 2, 4, 8, 16
CLOCK_SKEW_S = 60
MOST_IN_A_LIST = 8

# The scope of a route or a service that is one of several.
_ONE_OF_SEVERAL = 3
# The scopes of exports: by the only domain that a name is known by, and by one neighbour of several.
_BY_DOMAIN, _BY_NEIGHBOUR = 2, 4
# Bits of the scope of a member.
_ONE_DESTINATION, _INSIDE = 1, 2
VERSION = 1
SIGNED_PREFIX = b"rhumb certificate v1\0"
SIGNATURE_LENGTH = 64
# In place of the outermost domain, where an export is known everywhere.
_EVERYWHERE = bytes(NAME_LENGTH)

Address = Tuple[str, int]


@dataclass(frozen=True)
class Limits:
    """How much a member, and all whom it admits together, may have at one router or RIB. 0 is no bound."""

    names: int = 0
    kbit_per_s: int = 0
    inside_only: bool = False
    only_to: Optional[Name] = None

    def within(self, giver: "Limits") -> bool:
        """Whether nothing of it is wider than what its giver has."""
        numbers = ((self.names, giver.names), (self.kbit_per_s, giver.kbit_per_s))
        return (
            all(own == 0 or 0 < given <= own for given, own in numbers)
            and (self.inside_only or not giver.inside_only)
            and giver.only_to in (None, self.only_to)
        )


@dataclass(frozen=True)
class Certificate:
    """A statement. Which of ``subject``, ``destination`` and ``address`` it has depends on its type."""

    type: int
    sequence: int
    not_before_s: int
    not_after_s: int
    issuer: Name
    # A route's `via`, the name that an absence is about, a service's server, or a domain's (former) member.
    subject: Optional[Name] = None
    # The only destination that a route of scope 1 is for.
    destination: Optional[Name] = None
    # Whether a route is an export: its `via` is a domain, which carries to and from its outside.
    is_export: bool = False
    # The outermost domain in which an export is known.
    up_to: Optional[Name] = None
    # Whether a route or a service is one of several, beside which others of its issuer stay in force.
    is_one_of_several: bool = False
    # A locator's IP address and UDP port.
    address: Optional[Address] = None
    # What a member may do.
    rights: Optional[int] = None
    # And how much of it.
    limits: Limits = Limits()
    signature: bytes = bytes(SIGNATURE_LENGTH)

    def encode(self) -> bytes:
        """The certificate as it travels."""
        return self._statement() + self.signature

    def sign(self, identity: Identity) -> "Certificate":
        """The same statement, signed."""
        signature = identity.sign(SIGNED_PREFIX + self._statement())
        return Certificate(**{**self.__dict__, "signature": signature})

    def verify(self, issuer: Metadata) -> None:
        """Refuses a statement that the holder of these metadata did not sign, or that is not theirs."""
        if issuer.name() != self.issuer:
            raise Untrusted("certificate: these are not the issuer's metadata")
        issuer.verify(self.signature, SIGNED_PREFIX + self._statement())

    def check_window(self, now_s: float) -> None:
        """Refuses a statement that does not hold at ``now_s``, give or take what clocks may differ."""
        if now_s + CLOCK_SKEW_S < self.not_before_s:
            raise Untrusted("certificate: not yet valid")
        if now_s - CLOCK_SKEW_S > self.not_after_s:
            raise Untrusted("certificate: expired")

    def check_sequence(self, now_s: float) -> None:
        """Refuses a sequence, in milliseconds since 1970, that is ahead of ``now_s``."""
        if self.sequence // 1000 > now_s + CLOCK_SKEW_S:
            raise Untrusted("certificate: its sequence is ahead of the time")

    def _statement(self) -> bytes:
        scope = 0 if self.destination is None else 1
        scope = _ONE_OF_SEVERAL if self.is_one_of_several else scope
        if self.is_export:
            scope = _BY_NEIGHBOUR if self.is_one_of_several else _BY_DOMAIN
        only_to = self.limits.only_to
        if self.rights is not None:
            scope = (0 if only_to is None else _ONE_DESTINATION) | (_INSIDE if self.limits.inside_only else 0)
        parts = [bytes([VERSION, self.type, scope, 0])]
        parts += [n.to_bytes(8, "big") for n in (self.sequence, self.not_before_s, self.not_after_s)]
        parts += [self.issuer.octets]
        if self.subject is not None:
            parts += [self.subject.octets]
        if self.destination is not None:
            parts += [self.destination.octets]
        if self.is_export:
            parts += [_EVERYWHERE if self.up_to is None else self.up_to.octets]
        if self.address is not None:
            parts += [encode_address(self.address)]
        if self.rights is not None:
            numbers = (self.rights, self.limits.names, self.limits.kbit_per_s)
            parts += [number.to_bytes(4, "big") for number in numbers]
            parts += [] if only_to is None else [only_to.octets]
        return b"".join(parts)

    @classmethod
    def read(cls, reader: Reader) -> "Certificate":
        """Reads one certificate; its type and scope tell where it ends."""
        reader.expect(bytes([VERSION]), "certificate version")
        type_, scope = reader.integer(1), reader.integer(1)
        reader.expect(b"\0", "reserved byte of a certificate")
        if not ROUTE <= type_ <= REMOVAL:
            raise Malformed("certificate: type")
        is_one_of_several = type_ in (ROUTE, SERVICE) and scope == _ONE_OF_SEVERAL
        is_one_of_several = is_one_of_several or (type_, scope) == (ROUTE, _BY_NEIGHBOUR)
        if not is_one_of_several and scope > {ROUTE: 2, MEMBER: _ONE_DESTINATION | _INSIDE}.get(type_, 0):
            raise Malformed("certificate: scope")
        sequence, not_before_s, not_after_s = (reader.integer(8) for _ in range(3))
        if not_after_s < not_before_s:
            raise Malformed("certificate: ends before it begins")
        issuer = _read_name(reader)
        subject = _read_name(reader) if type_ in (ROUTE, ABSENCE, SERVICE, MEMBER, REMOVAL) else None
        destination = _read_name(reader) if (type_, scope) == (ROUTE, 1) else None
        is_export = type_ == ROUTE and scope in (_BY_DOMAIN, _BY_NEIGHBOUR)
        up_to = _read_name(reader) if is_export else None
        address = read_address(reader) if type_ == LOCATOR else None
        rights = _read_rights(reader) if type_ == MEMBER else None
        limits = _read_limits(reader, scope) if type_ == MEMBER else Limits()
        signature = reader.take(SIGNATURE_LENGTH)
        return cls(
            type_,
            sequence,
            not_before_s,
            not_after_s,
            issuer,
            subject,
            destination,
            is_export,
            None if up_to is None or up_to.octets == _EVERYWHERE else up_to,
            is_one_of_several,
            address,
            rights,
            limits,
            signature,
        )

    @classmethod
    def parse(cls, data: bytes) -> "Certificate":
        """Reads bytes that are exactly one certificate."""
        reader = Reader(data, "certificate")
        certificate = cls.read(reader)
        reader.end()
        return certificate


def route(issuer: Identity, via: Name, lifetime_s: int, destination: Optional[Name] = None) -> Certificate:
    """RtCert(issuer -> via): ``via`` may carry traffic to and from the issuer."""
    return _issue(issuer, ROUTE, lifetime_s, subject=via, destination=destination)


def export(issuer: Identity, domain: Name, lifetime_s: int, up_to: Optional[Name] = None) -> Certificate:
    """RtCert(issuer -> domain): the domain may carry the issuer's traffic to and from its outside."""
    return _issue(issuer, ROUTE, lifetime_s, subject=domain, is_export=True, up_to=up_to)


def locator(issuer: Identity, address: Address, lifetime_s: int) -> Certificate:
    """RtCert(issuer -> address): the issuer is reachable there."""
    return _issue(issuer, LOCATOR, lifetime_s, address=address)


def withdrawal(issuer: Identity, lifetime_s: int) -> Certificate:
    """Whatever the issuer said before no longer holds."""
    return _issue(issuer, WITHDRAWAL, lifetime_s)


def absence(issuer: Identity, absent: Name, lifetime_s: int) -> Certificate:
    """The issuer, a RIB, knows no route to ``absent``."""
    return _issue(issuer, ABSENCE, lifetime_s, subject=absent)


def service(issuer: Identity, server: Name, lifetime_s: int) -> Certificate:
    """AdCert(issuer -> server): the server may answer for the issuer, whose key it does not hold."""
    return _issue(issuer, SERVICE, lifetime_s, subject=server)


def member(domain: Identity, name: Name, rights: int, lifetime_s: int, limits: Limits = Limits()) -> Certificate:
    """DomainCert(domain -> name): ``name`` belongs to the domain, and may do so much in it."""
    return _issue(domain, MEMBER, lifetime_s, subject=name, rights=rights, limits=limits)


def removal(issuer: Identity, name: Name, lifetime_s: int) -> Certificate:
    """Whatever membership the issuer, or whom it admitted, gave ``name`` by now counts no longer."""
    return _issue(issuer, REMOVAL, lifetime_s, subject=name)


def encode_list(certificates: Sequence[Certificate]) -> bytes:
    """A count and the certificates back to back."""
    return bytes([len(certificates)]) + b"".join(c.encode() for c in certificates)


def read_list(reader: Reader) -> List[Certificate]:
    """Reads a list of certificates."""
    count = reader.integer(1)
    if count > MOST_IN_A_LIST:
        raise Malformed("certificates: too many")
    return [Certificate.read(reader) for _ in range(count)]


def next_sequence() -> int:
    """Milliseconds since 1970, and never the same number twice."""
    global _last_sequence
    with _sequence_lock:
        _last_sequence = max(_last_sequence + 1, time.time_ns() // 1_000_000)
        return _last_sequence


_last_sequence = 0
_sequence_lock = threading.Lock()


def _issue(issuer: Identity, type_: int, lifetime_s: int, **content: Any) -> Certificate:
    now_s = int(time.time())
    unsigned = Certificate(type_, next_sequence(), now_s, now_s + lifetime_s, issuer.name, **content)
    return unsigned.sign(issuer)


def _read_name(reader: Reader) -> Name:
    return Name(reader.take(NAME_LENGTH))


def _read_rights(reader: Reader) -> int:
    rights = reader.integer(4)
    if not 0 < rights <= JOIN | CARRY | PUBLISH | ADMIT | SERVE:
        raise Malformed("certificate: rights")
    return rights


def _read_limits(reader: Reader, scope: int) -> Limits:
    names, kbit_per_s = reader.integer(4), reader.integer(4)
    only_to = _read_name(reader) if scope & _ONE_DESTINATION else None
    return Limits(names, kbit_per_s, scope & _INSIDE != 0, only_to)


def encode_address(address: Address) -> bytes:
    ip = ipaddress.ip_address(address[0])
    if isinstance(ip, ipaddress.IPv4Address):
        octets = b"\0" * 10 + b"\xff\xff" + ip.packed
    else:
        octets = ip.packed
    return octets + address[1].to_bytes(2, "big")


def read_address(reader: Reader) -> Address:
    ip6 = ipaddress.IPv6Address(reader.take(16))
    ip = ip6.ipv4_mapped or ip6
    port = reader.integer(2)
    if ip.is_multicast or ip.is_unspecified or ip == ipaddress.IPv4Address("255.255.255.255"):
        raise Malformed("locator: not a unicast address")
    if port == 0:
        raise Malformed("locator: port 0")
    return str(ip), port
