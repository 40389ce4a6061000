"""Chains (section 3): certificates that lead from a name to whoever may carry for it."""

from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Sequence, Tuple

from .certificates import LOCATOR, MOST_IN_A_LIST, ROUTE, SERVICE, Address, Certificate
from .errors import Untrusted
from .metadata import Metadata
from .names import Name


@dataclass(frozen=True)
class Chain:
    """A verified chain. Only ``verify`` makes one."""

    origin: Name
    # The server if there is one, and every `via`, from the origin outward.
    path: Tuple[Name, ...]
    # Where the last `via` is reachable, if the chain tells.
    address: Optional[Address]
    # The only name that the origin may exchange traffic with over this chain, if it is so narrow.
    destination: Optional[Name]
    # The domains in each of which the chain may be known.
    bounds: Tuple[Name, ...]
    # How many certificates at its beginning may show outside of a domain.
    exported: int
    not_after_s: int


def verify(
    origin: Name, certificates: Sequence[Certificate], metadata: Iterable[Metadata], now_s: float
) -> Chain:
    """Checks structure, then windows, then signatures; signatures cost the most."""
    path, destination = _check_structure(origin, certificates)
    for certificate in certificates:
        certificate.check_window(now_s)
    # By their hash: whoever sent the metadata cannot give a name another key.
    by_name: Dict[Name, Metadata] = {item.name(): item for item in metadata}
    for certificate in certificates:
        issuer = by_name.get(certificate.issuer)
        if issuer is None:
            raise Untrusted(f"chain: no metadata of {certificate.issuer}")
        certificate.verify(issuer)
    not_after_s = min(c.not_after_s for c in certificates)
    bounds = tuple(c.up_to for c in certificates if c.up_to is not None)
    exported = max((at + 1 for at, c in enumerate(certificates) if c.is_export), default=0)
    return Chain(origin, path, certificates[-1].address, destination, bounds, exported, not_after_s)


def _check_structure(
    origin: Name, certificates: Sequence[Certificate]
) -> Tuple[Tuple[Name, ...], Optional[Name]]:
    if not 1 <= len(certificates) <= MOST_IN_A_LIST:
        raise Untrusted("chain: length")
    path = []
    destination = None
    is_inside = False
    expected_issuer = origin
    for position, certificate in enumerate(certificates):
        if certificate.issuer != expected_issuer:
            raise Untrusted("chain: broken")
        is_last = position == len(certificates) - 1
        # Alone it is the way to a router, and evidence of nothing.
        is_placed = position == 0 or certificates[position - 1].type == ROUTE
        if certificate.type == LOCATOR and is_last and is_placed:
            break
        is_service = certificate.type == SERVICE and position == 0 and not is_last
        if (certificate.type != ROUTE and not is_service) or certificate.subject is None:
            raise Untrusted("chain: a certificate that does not belong")
        if certificate.is_export and is_inside:
            raise Untrusted("chain: an export behind what is inside")
        is_inside = is_inside or (certificate.type == ROUTE and not certificate.is_export)
        if certificate.destination is not None:
            if destination not in (None, certificate.destination):
                raise Untrusted("chain: two different destinations")
            destination = certificate.destination
        path.append(certificate.subject)
        expected_issuer = certificate.subject
    if len({origin, *path}) != 1 + len(path):
        raise Untrusted("chain: a name occurs twice")
    return tuple(path), destination
