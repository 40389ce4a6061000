"""A node (section 6): joins a router under its name, sends, receives, answers pings.

Nothing runs in the background: ``poll`` does what is due, so a node lives as long as somebody calls it.
"""

import math
import secrets
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Deque, Dict, List, Optional, Sequence, Tuple

from . import certificates, chains, log, pdus, rib
from .certificates import Address, Certificate
from .errors import Malformed, Refused, RhumbError, TimedOut, Untrusted
from .groups import LEAVE, GroupAccept, GroupRequest
from .identity import Identity
from .labels import Labels
from .memberships import Membership
from .metadata import Metadata
from .names import Name
from .payloads import DATAGRAM, Payload
from .rib import Lists
from .pdus import Accept, LabelledPdu, Nack, Pdu
from .session import Session

DEFAULT_LEASE_S = 600

_FIRST_REPETITION_S = 0.5
_LONGEST_REPETITION_S = 4.0
# PDUs that a NACK may still be about.
_MOST_OUTSTANDING = 256
_MOST_RESENDS = 10
_MOST_DOUBLINGS = 5
_RESEND_REASONS = (pdus.NOT_YET, pdus.OVERLOADED)
_LABELLED_ACTIONS = (pdus.DATA, pdus.PING)
_ADVERTISE_REASONS = (pdus.BAD_CERTIFICATE, pdus.NOT_AUTHORISED, pdus.SUPERSEDED, pdus.EXPIRED, pdus.NOT_YET_VALID)


@dataclass
class _Part:
    """What we asked to be in a group, and what a router says of it."""

    request: GroupRequest
    accepted: Optional[GroupAccept] = None
    ask_at: float = 0.0


@dataclass
class _Outstanding:
    """A PDU on its way, as far as we know."""

    pdu: Pdu
    # When it was last sent.
    sent_at: float
    resends: int = 0
    resend_at: Optional[float] = None
    # What keeps it from arriving, if it will not be sent again.
    failure: Optional[Nack] = None


class Node:
    """A name that is reachable through a router."""

    def __init__(self, session: Session, identity: Identity, lease_s: int = DEFAULT_LEASE_S):
        self.identity = identity
        self.name = identity.name
        self.router = session.peer.name()
        self.session = session
        # What the router said last: until when it carries, and whether others can find us.
        self.accepted: Optional[Accept] = None
        # NACKs that were about something we sent, with the certificates in them, for the curious.
        self.nacks: List[Nack] = []
        self.evidence: Dict[int, Tuple[Certificate, ...]] = {}
        self.labels = Labels()
        # How many PDUs came under a label of ours.
        self.labelled_count = 0
        # Ours, and those that we answer for.
        self.names = {self.name}

        # By which domain we are known outside of it, and the outermost where we are.
        self._export: Optional[Tuple[Name, Optional[Name]]] = None
        self._lease_s = lease_s
        self._renew_at = math.inf
        self._outstanding: "OrderedDict[int, _Outstanding]" = OrderedDict()
        self._received: Deque[Pdu] = deque()
        self._groups: Dict[Name, _Part] = {}

    @classmethod
    def join(
        cls,
        address: Address,
        identity: Identity,
        router: Optional[Name] = None,
        is_native: bool = False,
        lease_s: int = DEFAULT_LEASE_S,
        timeout_s: float = 15,
    ) -> "Node":
        """Joins the router at ``address`` and waits until others can find us."""
        node = cls(Session.connect(address, identity, router, is_native), identity, lease_s)
        try:
            node.advertise(timeout_s)
        except BaseException:
            node.close()
            raise
        return node

    def advertise(self, timeout_s: float = 15, chain: Optional[Sequence[Certificate]] = None) -> None:
        """Lets the router carry for us, and waits until the RIB knows."""
        self._advertise_until_published(self._advertisement(chain), timeout_s)

    def export(self, domain: Name, up_to: Optional[Name] = None, timeout_s: float = 15) -> None:
        """Lets the router's domain carry for us to and from its outside, until we leave."""
        self._advertise_until_published(self._advertised_export(domain, up_to), timeout_s)
        self._export = (domain, up_to)

    def _advertised_export(self, domain: Name, up_to: Optional[Name]) -> Pdu:
        return self._advertisement([certificates.export(self.identity, domain, self._lease_s, up_to)])

    def _advertise_until_published(self, pdu: Pdu, timeout_s: float) -> None:
        self.accepted = None
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_REPETITION_S
        while True:
            self.send_pdu(pdu)
            repeat_at = min(time.monotonic() + pause_s, deadline)
            pause_s = min(2 * pause_s, _LONGEST_REPETITION_S)
            while time.monotonic() < repeat_at:
                self._step(repeat_at)
                if self.accepted is not None and self.accepted.published:
                    return
                self._raise_failure(pdu)
            if time.monotonic() >= deadline:
                raise TimedOut("the router does not publish our name")

    def answer_for(self, owner: Metadata, service: Certificate, timeout_s: float = 15) -> None:
        """Joins for another name as well, whose owner said in ``service`` that we may answer for it."""
        self.names.add(service.issuer)
        chain = (service, certificates.route(self.identity, self.router, self._lease_s))
        data = rib.encode_metadata([owner, self.identity.metadata])
        pdu = Pdu(pdus.ADVERTISE, service.issuer, self.router, data, secrets.randbits(32), certificates=chain)
        self._advertise_until_published(pdu, timeout_s)

    def join_group(self, kind: int, membership: Membership, timeout_s: float = 15) -> None:
        """Receives what is sent to the group that the membership is of, sends to it, or both (section 15)."""
        lists = Lists(membership.issuers, membership.certificates)
        self._ask_group(membership.domain, GroupRequest(kind, lists), timeout_s)

    def leave_group(self, group: Name, timeout_s: float = 15) -> None:
        """Is no part of a group any longer."""
        self._ask_group(group, GroupRequest(LEAVE), timeout_s)
        del self._groups[group]

    def _ask_group(self, group: Name, request: GroupRequest, timeout_s: float) -> None:
        self._groups[group] = part = _Part(request)
        pdu = self._pdu(pdus.GROUP_REQUEST, group, request.encode())
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.send_pdu(pdu)
            repeat_at = min(time.monotonic() + _LONGEST_REPETITION_S, deadline)
            while time.monotonic() < repeat_at:
                self._step(repeat_at)
                if part.accepted is not None:
                    return
                self._raise_failure(pdu)
        raise TimedOut(f"the router does not answer about the group {group}")

    def leave(self) -> None:
        """Takes back what was advertised, once, and ends the session."""
        withdrawal = certificates.withdrawal(self.identity, self._lease_s)
        self.send_pdu(self._pdu(pdus.ADVERTISE, self.router, certificates_=(withdrawal,)))
        self.close()

    def close(self) -> None:
        """Ends the session; the name stays known for its lease."""
        self.session.close()

    @property
    def longest_data(self) -> int:
        """The most bytes of data that a PDU may have on the way to the router."""
        return self.session.longest_pdu - pdus.HEADER_LENGTH

    def send(self, destination: Name, payload: Payload, source: Optional[Name] = None) -> int:
        """Sends a payload and returns its tag. It is sent again when a router says "not yet", while somebody polls.

        ``source`` is another name than ours that we answer for.
        """
        pdu = Pdu(pdus.DATA, source or self.name, destination, payload.encode(), secrets.randbits(32))
        self.send_pdu(pdu)
        return pdu.tag

    def send_text(self, destination: Name, port: int, text: str) -> int:
        """Sends a text as a datagram."""
        return self.send(destination, Payload(DATAGRAM, port, text.encode()))

    def failure(self, tag: int) -> Optional[Nack]:
        """Why what was sent under this tag did not arrive, as far as known."""
        outstanding = self._outstanding.get(tag)
        return None if outstanding is None else outstanding.failure

    def ping(self, destination: Name, timeout_s: float = 5, data: bytes = b"round trip") -> float:
        """The round-trip time in seconds."""
        pdu = self._pdu(pdus.PING, destination, data)
        deadline = time.monotonic() + timeout_s
        outstanding = self.send_pdu(pdu)
        while time.monotonic() < deadline:
            pong = self._step(deadline)
            if pong is not None and (pong.source, pong.tag, pong.data) == (destination, pdu.tag, data):
                return time.monotonic() - outstanding.sent_at
            self._raise_failure(pdu)
        raise TimedOut(f"no pong from {destination}")

    def pong(self, timeout_s: float) -> Pdu:
        """The next Pong, of whichever ping."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            pong = self._step(deadline)
            if pong is not None:
                return pong
        raise TimedOut("no pong")

    def poll(self, timeout_s: float) -> Optional[Pdu]:
        """The next Data PDU, or nothing if none comes in time. Meanwhile answers pings and resends what is due."""
        deadline = time.monotonic() + timeout_s
        while not self._received:
            self._step(deadline)
            if time.monotonic() >= deadline and not self._received:
                return None
        return self._received.popleft()

    def _pdu(
        self, action: int, destination: Name, data: bytes = b"", certificates_: Sequence[Certificate] = ()
    ) -> Pdu:
        return Pdu(action, self.name, destination, data, secrets.randbits(32), certificates=tuple(certificates_))

    def _advertisement(self, chain: Optional[Sequence[Certificate]] = None) -> Pdu:
        if chain is None:
            chain = [certificates.route(self.identity, self.router, self._lease_s)]
        return self._pdu(pdus.ADVERTISE, self.router, certificates_=chain)

    def send_pdu(self, pdu: Pdu) -> _Outstanding:
        """Sends a PDU and remembers it, for NACKs that are about it."""
        outstanding = self._outstanding.setdefault(pdu.tag, _Outstanding(pdu, time.monotonic()))
        while len(self._outstanding) > _MOST_OUTSTANDING:
            self._outstanding.popitem(last=False)
        self._emit(pdu)
        return outstanding

    def _emit(self, pdu: Pdu) -> None:
        """Sends a PDU with its names, or with the label that the router gave us for them."""
        encoded = pdu.encode()
        if len(encoded) > self.session.longest_pdu:
            raise Malformed("the PDU does not fit a datagram")
        label = self.labels.received.get((pdu.source, pdu.destination))
        if label is not None and pdu.action in _LABELLED_ACTIONS and not pdu.certificates:
            encoded = LabelledPdu(pdu.action, label, pdu.data, pdu.tag, pdu.ttl).encode()
        self.session.send(encoded)

    def _step(self, deadline: float) -> Optional[Pdu]:
        """Takes one PDU or waits until something is due. Returns a Pong, for whoever waits for it."""
        self._resend_due()
        self._renew_due()
        due = [o.resend_at for o in self._outstanding.values() if o.resend_at is not None]
        due += [part.ask_at for part in self._groups.values() if part.accepted is not None]
        data = self.session.receive(max(min([deadline, self._renew_at, *due]) - time.monotonic(), 0))
        if data is None:
            return None
        try:
            pdu = pdus.parse(data)
            if isinstance(pdu, LabelledPdu):
                return self._take_labelled(pdu)
            self._give_label(pdu)
            return self._take(pdu)
        except Malformed:
            # Noise is dropped.
            return None

    def _give_label(self, pdu: Pdu) -> None:
        """Says how the router may call this flow from now on. Small PDUs would make the answer the larger one."""
        if pdu.action not in _LABELLED_ACTIONS or pdu.destination not in self.names or len(pdu.data) < 4:
            return
        label = self.labels.give((pdu.source, pdu.destination), time.monotonic())
        if label is not None:
            data = pdus.encode_label(label)
            self.session.send(Pdu(pdus.FLOW_ACCEPT, pdu.destination, pdu.source, data, pdu.tag).encode())

    def _take_labelled(self, pdu: LabelledPdu) -> Optional[Pdu]:
        if pdu.action == pdus.NACK:
            # The router has forgotten its label. What came to nothing goes again, with names.
            self.labels.forget_received(pdu.label)
            outstanding = self._outstanding.get(pdu.tag)
            if Nack.parse(pdu.data).reason == pdus.UNKNOWN_FLOW and outstanding is not None:
                outstanding.resend_at = time.monotonic()
            return None
        flow = self.labels.flow(pdu.label)
        if flow is not None:
            self.labelled_count += 1
            return self._take(Pdu(pdu.action, *flow, pdu.data, pdu.tag, pdu.ttl))
        if len(pdu.data) >= 4:
            nack = LabelledPdu(pdus.NACK, pdu.label, Nack(pdus.UNKNOWN_FLOW).encode(), pdu.tag)
            self.session.send(nack.encode())
        return None

    def _take(self, pdu: Pdu) -> Optional[Pdu]:
        if pdu.destination in self._groups:
            if pdu.action == pdus.DATA and Payload.parse(pdu.data).kind == DATAGRAM:
                self._received.append(pdu)
            return None
        if pdu.destination not in self.names:
            return None
        if pdu.action == pdus.PONG:
            return pdu
        if pdu.action == pdus.DATA:
            self._received.append(pdu)
        elif pdu.action == pdus.PING:
            self.session.send(Pdu(pdus.PONG, pdu.destination, pdu.source, pdu.data, pdu.tag).encode())
        elif pdu.action == pdus.ACCEPT and pdu.source == self.router:
            self._take_accept(pdu)
        elif pdu.action == pdus.GROUP_ACCEPT and self._is_answer(pdu):
            self._take_group_accept(pdu.source, GroupAccept.parse(pdu.data))
        elif pdu.action == pdus.NACK:
            self._take_nack(pdu)
        elif pdu.action == pdus.FLOW_ACCEPT and self._is_answer(pdu):
            self.labels.received[pdu.destination, pdu.source] = pdus.parse_label(pdu.data)
        return None

    def _is_answer(self, pdu: Pdu) -> bool:
        """Whether we sent something of this tag the other way."""
        outstanding = self._outstanding.get(pdu.tag)
        if outstanding is None:
            return False
        return (outstanding.pdu.source, outstanding.pdu.destination) == (pdu.destination, pdu.source)

    def _take_accept(self, pdu: Pdu) -> None:
        accept = Accept.parse(pdu.data)
        outstanding = self._outstanding.get(pdu.tag)
        # It is addressed to whoever holds the session, whichever name it is about.
        if not outstanding or outstanding.pdu.action != pdus.ADVERTISE:
            return
        if accept.name == outstanding.pdu.source:
            self.accepted = accept
            self._renew_at = time.monotonic() + self._lease_s / 2

    def _take_group_accept(self, group: Name, accept: GroupAccept) -> None:
        part = self._groups.get(group)
        if part is not None and accept.kind == part.request.kind:
            part.accepted = accept
            part.ask_at = time.monotonic() + max(accept.until_s - time.time(), 2) / 2

    def _take_nack(self, pdu: Pdu) -> None:
        nack = Nack.parse(pdu.data)
        # A NACK that is about nothing we sent is not about us.
        if not self._is_answer(pdu):
            return
        outstanding = self._outstanding[pdu.tag]
        self.nacks.append(nack)
        self.evidence[pdu.tag] = pdu.certificates
        if nack.reason in _RESEND_REASONS and outstanding.resends < _MOST_RESENDS:
            back_off = 2 ** min(outstanding.resends, _MOST_DOUBLINGS)
            outstanding.resend_at = time.monotonic() + nack.value / 1000 * back_off
        elif nack.reason in _ADVERTISE_REASONS and outstanding.pdu.action != pdus.ADVERTISE:
            outstanding.failure = nack
            self.send_pdu(self._advertisement())
        else:
            outstanding.failure = nack

    def _resend_due(self) -> None:
        now = time.monotonic()
        for outstanding in self._outstanding.values():
            if outstanding.resend_at is not None and outstanding.resend_at <= now:
                outstanding.resend_at = None
                outstanding.resends += 1
                outstanding.sent_at = now
                self._emit(outstanding.pdu)

    def _renew_due(self) -> None:
        now = time.monotonic()
        if now >= self._renew_at:
            # Unless it is accepted, once more soon.
            self._renew_at = now + self._lease_s / 8
            self.send_pdu(self._advertisement())
            if self._export is not None:
                self.send_pdu(self._advertised_export(*self._export))

        for group, part in self._groups.items():
            if part.accepted is not None and now >= part.ask_at:
                part.ask_at = now + _LONGEST_REPETITION_S
                self.send_pdu(self._pdu(pdus.GROUP_REQUEST, group, part.request.encode()))

    def _raise_failure(self, pdu: Pdu) -> None:
        outstanding = self._outstanding.get(pdu.tag)
        if outstanding is not None and outstanding.failure is not None:
            raise Refused(str(outstanding.failure))


class RibClient:
    """Asks a RIB, and believes only what is signed."""

    def __init__(self, session: Session, identity: Identity):
        self._session = session
        self._identity = identity
        self._rib = session.peer

    @classmethod
    def connect(cls, address: Address, identity: Identity, expected: Optional[Name] = None) -> "RibClient":
        """Makes a session with the RIB at ``address``."""
        return cls(Session.connect(address, identity, expected), identity)

    def close(self) -> None:
        """Ends the session."""
        self._session.close()

    def look_up(self, name: Name, timeout_s: float = 5) -> Optional[chains.Chain]:
        """The verified chain from ``name``, or nothing if the RIB signs that it knows none."""
        found = self._look_up(rib.LOOK_UP_ROUTE, name, timeout_s)
        if found is None:
            return None
        return chains.verify(name, found.certificates, found.metadata, time.time())

    def look_up_own(self, name: Name, timeout_s: float = 5) -> Tuple[Certificate, ...]:
        """What ``name`` itself says of the way to it, as the RIB has it; nothing if that knows none."""
        found = self._look_up(rib.LOOK_UP_ROUTE, name, timeout_s)
        return tuple(one for one in found.certificates if one.issuer == name) if found else ()

    def look_up_metadata(self, name: Name, timeout_s: float = 5) -> Optional[Metadata]:
        """The metadata that ``name`` is the hash of, or nothing if the RIB signs that it knows none."""
        found = self._look_up(rib.LOOK_UP_METADATA, name, timeout_s)
        if found is None:
            return None
        for metadata in found.metadata:
            if metadata.name() == name:
                return metadata
        raise Untrusted("the RIB answers with somebody else's metadata")

    def prove(self, name: Name, timeout_s: float = 5) -> Tuple[log.Head, Optional[Tuple[bytes, ...]]]:
        """The RIB's newest head, and the fingerprints of what that says of ``name``, unless that has just changed."""
        response = self._ask(rib.Request(rib.PROVE, secrets.randbits(32), name), timeout_s)
        if response.head is None:
            raise Untrusted("the RIB answers something else")
        response.head.verify(self._rib, time.time())
        held = None if response.way is None else response.way.held(response.head, name)
        return response.head, held

    def is_before(self, earlier: log.Head, later: log.Head, timeout_s: float = 5) -> bool:
        """Whether the RIB shows that the one head led to the other."""
        request = rib.Request(
            rib.ASK_WAY_BACK, secrets.randbits(32), began_ms=later.began_ms, epochs=(earlier.epoch, later.epoch)
        )
        return log.is_before(earlier, later, self._ask(request, timeout_s).back)

    def _look_up(self, kind: int, name: Name, timeout_s: float) -> Optional[rib.Response]:
        response = self._ask(rib.Request(kind, secrets.randbits(32), name), timeout_s)
        if response.kind == rib.ABSENT:
            absence = response.certificates[0]
            if absence.subject != name:
                raise Untrusted("the absence is about another name")
            absence.check_window(time.time())
            absence.verify(self._rib)
            return None
        if response.kind != rib.FOUND or response.name != name:
            raise Untrusted("the RIB answers something else")
        return response

    def publish(
        self, metadata: Sequence[Metadata], listed: Sequence[Certificate], timeout_s: float = 5
    ) -> None:
        """Has certificates stored. Raises what the RIB has against it."""
        request = rib.Request(
            rib.PUBLISH, secrets.randbits(32), metadata=tuple(metadata), certificates=tuple(listed)
        )
        if self._ask(request, timeout_s).kind != rib.STORED:
            raise Untrusted("the RIB answers something else")

    def _ask(self, request: rib.Request, timeout_s: float) -> rib.Response:
        pdu = Pdu(
            pdus.RIB_REQUEST, self._identity.name, self._rib.name(), request.encode(), secrets.randbits(32)
        ).encode()
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_REPETITION_S
        while time.monotonic() < deadline:
            self._session.send(pdu)
            repeat_at = min(time.monotonic() + pause_s, deadline)
            pause_s = min(2 * pause_s, _LONGEST_REPETITION_S)
            response = self._await_response(request.identifier, repeat_at)
            if response is not None:
                if response.kind == rib.REFUSED:
                    raise Refused(rib.REFUSALS[response.refusal])
                return response
        raise TimedOut("the RIB does not answer")

    def _acknowledge(self, identifier: int) -> None:
        request = rib.Request(rib.ACKNOWLEDGE, identifier)
        self._session.send(Pdu(pdus.RIB_REQUEST, self._identity.name, self._rib.name(), request.encode()).encode())

    def _await_response(self, identifier: int, deadline: float) -> Optional[rib.Response]:
        while (left_s := deadline - time.monotonic()) > 0:
            data = self._session.receive(left_s)
            if data is None:
                return None
            try:
                pdu = Pdu.parse(data)
                response = rib.Response.parse(pdu.data) if pdu.action == pdus.RIB_RESPONSE else None
            except RhumbError:
                continue
            if response is not None and response.kind == rib.CHANGED:
                # What was found keeps being told of. We have used it, so it is enough to stop the repetition.
                self._acknowledge(response.identifier)
            elif response is not None and response.identifier == identifier:
                return response
        return None
