"""One secure session (sections 4.3 and 4.4) over a UDP socket of its own.

Flow: 1. the DTLS handshake; 2. session parameters, both ways; 3. sealed datagrams, until an end closes it or falls
silent. Version 1 of this client does not renew its keys after an hour; it is for shorter lives.
"""

import secrets
import select
import socket
import time
from collections import deque
from typing import Deque, Optional, Sequence, Union

from . import bundles, sealed
from .certificates import Address
from .datagrams import DTLS_FIRST_BYTES, Initial, Retry
from .dtls.client12 import Client12
from .dtls.client13 import Client13
from .errors import HandshakeFailed, Malformed, SessionOver, Untrusted
from .identity import Identity, identify
from .metadata import Metadata
from .names import Name
from .reader import Reader

HANDSHAKE_DEADLINE_S = 15
KEEP_ALIVE_S = 5
SILENCE_S = 20

_FIRST_RETRANSMISSION_S = 0.5
_LONGEST_RETRANSMISSION_S = 2.0
_FIRST_REPETITION_S = 0.25
# What fits an Ethernet frame over IPv4.
_LARGEST_DATAGRAM = 1472
# What fits the smallest link of IPv6.
_LEAST_LARGEST_DATAGRAM = 1232
_LONGEST_UDP_PAYLOAD = 65_535

Client = Union[Client12, Client13]


class Parameters:
    """Session parameters: what each end tells the other first."""

    def __init__(self, index: int, largest_datagram: int = _LARGEST_DATAGRAM, lanes: int = 1):
        self.index = index
        self.lanes = lanes
        self.largest_datagram = largest_datagram

    def encode(self) -> bytes:
        """The parameters as they travel in DTLS application data."""
        return b"RP\x01" + bytes([self.lanes]) + self.index.to_bytes(4, "big") + self.largest_datagram.to_bytes(2, "big")

    @classmethod
    def parse(cls, data: bytes) -> "Parameters":
        """Reads the parameters of version 1. Of a peer's lanes, 1 or 8, we send on lane 0 alone, whose index is given."""
        reader = Reader(data, "session parameters")
        reader.expect(b"RP\x01", "not version 1")
        if (lanes := reader.integer(1)) not in (1, 8):
            raise Malformed("session parameters: lanes")
        index, largest_datagram = reader.integer(4), reader.integer(2)
        reader.end()
        if not 0 < index <= sealed.MOST_INDEX or (lanes == 8 and index % 8):
            raise Malformed("session parameters: index")
        if largest_datagram < _LEAST_LARGEST_DATAGRAM:
            raise Malformed("session parameters: largest datagram")
        return cls(index, largest_datagram, lanes)


class Session:
    """A session with a peer whose name is proven."""

    def __init__(
        self, address: Address, client: Client, expected: Optional[Name], is_native: bool, deadline_s: float
    ):
        self._address = address
        self._socket = _open_socket(address)
        self._dtls = client
        self._deadline = time.monotonic() + deadline_s
        self._is_native = is_native
        self._parameters = Parameters(1 + secrets.randbelow(sealed.MOST_INDEX))
        self._peer_parameters: Optional[Parameters] = None
        self.sealer: Optional[sealed.Sealer] = None
        self._opener: Optional[sealed.Opener] = None
        self._opened: Deque[bytes] = deque()
        # PDUs that came with others.
        self.bundled = 0
        self._has_opened = False
        self._last_sent_at = self._last_opened_at = time.monotonic()
        self._repeat_at = 0.0
        self._repetition_s = _FIRST_REPETITION_S
        try:
            self._shake_hands()
            self.peer: Metadata = identify(self._dtls.peer_certificate)
            if expected is not None and self.peer.name() != expected:
                raise Untrusted(f"{self.peer.name()} answered instead of {expected}")
            self._exchange_parameters()
        except BaseException:
            self._socket.close()
            raise

    @classmethod
    def connect(
        cls,
        address: Address,
        identity: Identity,
        expected: Optional[Name] = None,
        is_native: bool = False,
        client: Optional[Client] = None,
        deadline_s: float = HANDSHAKE_DEADLINE_S,
    ) -> "Session":
        """Makes a session with whoever is at ``address``, or only with ``expected``.

        A native initiator speaks DTLS 1.3 and sends its hello in an *initial*; a foreign one speaks 1.2 and leaves the
        cookie to DTLS. ``client`` is for those who want another mixture, or show something else than their identity.
        """
        if client is None:
            client = (Client13 if is_native else Client12)(identity.key, identity.x509())
        return cls(address, client, expected, is_native, deadline_s)

    @property
    def longest_pdu(self) -> int:
        """The most bytes of one PDU to the peer: what every path carries, since this client does not probe (section 4.6)."""
        return _LEAST_LARGEST_DATAGRAM - sealed.OVERHEAD

    def fileno(self) -> int:
        """For ``select``, by whoever waits for something else, too."""
        return self._socket.fileno()

    def send(self, pdu: bytes) -> None:
        """Sends a PDU, once."""
        if len(pdu) > self.longest_pdu:
            raise Malformed("the PDU does not fit a datagram")
        self._send_sealed(sealed.TYPE_PDU, pdu)

    def send_together(self, pdus: Sequence[bytes]) -> None:
        """Sends PDUs in one datagram, once. The peer must take bundles."""
        bundle = bundles.encode(pdus)
        if len(bundle) > self.longest_pdu:
            raise Malformed("the PDUs do not fit a datagram")
        self._send_sealed(sealed.TYPE_BUNDLE, bundle)

    def receive(self, timeout_s: float) -> Optional[bytes]:
        """The next PDU, or nothing if none comes in time. Keeps the session alive meanwhile."""
        deadline = time.monotonic() + timeout_s
        while not self._opened:
            now = time.monotonic()
            self._live(now)
            next_event = min(deadline, self._last_sent_at + KEEP_ALIVE_S)
            if not self._has_opened:
                next_event = min(next_event, self._repeat_at)
            datagram = self._read(next_event - now)
            if datagram is not None:
                self._take(datagram)
            elif now >= deadline:
                return None
        return self._opened.popleft()

    def change_port(self) -> None:
        """Goes on from another port, as if a translator of addresses had forgotten the first."""
        self._socket.close()
        self._socket = _open_socket(self._address)

    def close(self) -> None:
        """Tells the peer that this was all. Once is enough, and more does no harm."""
        if self._socket.fileno() < 0:
            return
        if self.sealer is not None:
            self._send_sealed(sealed.TYPE_CLOSE, b"")
        self._socket.close()

    # Step 1

    def _shake_hands(self) -> None:
        pause_s = _FIRST_RETRANSMISSION_S
        self._dtls.start()
        if self._is_native:
            self._knock()
        while not self._dtls.is_complete:
            self._flush()
            datagram = self._read(pause_s)
            if datagram is not None:
                self._take(datagram)
            else:
                pause_s = min(2 * pause_s, _LONGEST_RETRANSMISSION_S)
                self._dtls.retransmit()
            if time.monotonic() > self._deadline:
                raise HandshakeFailed("no answer")

    def _knock(self) -> None:
        """Shows our address to be ours before the responder spends anything on us."""
        hello = self._dtls.outbox.pop()
        token = None
        pause_s = _FIRST_RETRANSMISSION_S
        while time.monotonic() < self._deadline:
            self.write(Initial(hello, token).encode())
            answer = self._read(pause_s)
            if answer is None:
                pause_s = min(2 * pause_s, _LONGEST_RETRANSMISSION_S)
            elif answer and answer[0] in DTLS_FIRST_BYTES:
                self._take(answer)
                return
            else:
                token = _token_in(answer, hello) or token
        raise HandshakeFailed("no answer")

    # Step 2

    def _exchange_parameters(self) -> None:
        to_server, to_client = sealed.roots(self._dtls.export(sealed.EXPORTER_LABEL, sealed.EXPORTED_LENGTH))
        self._root_out = to_server
        self._opener = sealed.Opener(to_client, self._parameters.index)
        self._last_opened_at = time.monotonic()
        self._dtls.send(self._parameters.encode())
        self._repeat_at = time.monotonic() + self._repetition_s
        self._flush()
        # Parameters may have come in one datagram with the end of the handshake.
        self._take_parameters()
        # The peer's first record may overtake its parameters, which it repeats until it has opened one of ours.
        while not self._has_opened or self._peer_parameters is None:
            self._repeat_parameters(time.monotonic())
            next_event = self._deadline if self._has_opened else self._repeat_at
            datagram = self._read(next_event - time.monotonic())
            if datagram is not None:
                self._take(datagram)
            if time.monotonic() > self._deadline:
                raise HandshakeFailed("the peer does not open the session")

    def _repeat_parameters(self, now: float) -> None:
        if not self._has_opened and now >= self._repeat_at:
            self._dtls.send(self._parameters.encode())
            self._repetition_s *= 2
            self._repeat_at = now + self._repetition_s
            self._flush()

    def _take_parameters(self) -> None:
        while self._dtls.received and self._opener is not None:
            parameters = Parameters.parse(self._dtls.received.pop(0))
            if self._peer_parameters is None:
                self._peer_parameters = parameters
                self.sealer = sealed.Sealer(self._root_out, parameters.index)
            # Also for the peer that repeats its own because nothing of ours has opened.
            self._keep_alive()

    # Step 3

    def _live(self, now: float) -> None:
        if now - self._last_opened_at > SILENCE_S:
            # In case only one direction failed.
            self._send_sealed(sealed.TYPE_CLOSE, b"")
            raise SessionOver("the peer fell silent")
        if now - self._last_sent_at >= KEEP_ALIVE_S:
            self._keep_alive()
        self._repeat_parameters(now)

    def _take(self, datagram: bytes) -> None:
        """Tells datagrams apart by their first byte (section 4)."""
        if not datagram:
            return
        if datagram[0] in DTLS_FIRST_BYTES:
            self._dtls.receive(datagram)
            self._flush()
            self._take_parameters()
        elif self._opener is not None:
            self._take_sealed(datagram)

    def _take_sealed(self, datagram: bytes) -> None:
        assert self._opener is not None, "asked by the caller"
        opened = self._opener.open(datagram)
        if opened is None:
            return
        self._has_opened = True
        self._last_opened_at = time.monotonic()
        type_, plaintext = opened
        if type_ == sealed.TYPE_CLOSE:
            raise SessionOver("the peer closed the session")
        if type_ == sealed.TYPE_PATH:
            self._answer_challenge(plaintext)
        elif type_ == sealed.TYPE_BUNDLE:
            self._take_bundle(plaintext)
        elif plaintext:
            self._opened.append(plaintext)

    def _take_bundle(self, plaintext: bytes) -> None:
        """Takes each PDU as if it had come alone (section 4.8)."""
        try:
            pdus = bundles.parse(plaintext)
        except Malformed:
            return
        self.bundled += len(pdus)
        self._opened.extend(pdus)

    def _answer_challenge(self, plaintext: bytes) -> None:
        """Shows the peer that we are where it sent a challenge (section 4.5). The socket is connected, so there is one way."""
        try:
            challenge = sealed.PathMessage.parse(plaintext).challenge
        except Malformed:
            return
        if challenge and self.sealer is not None:
            self._send_sealed(sealed.TYPE_PATH, sealed.PathMessage(answer=challenge).encode())

    def _keep_alive(self) -> None:
        """Shows that we are there, and that we take bundles."""
        self._send_sealed(sealed.TYPE_PDU, b"")
        self._send_sealed(sealed.TYPE_BUNDLE, bundles.encode([]))

    def _send_sealed(self, type_: int, plaintext: bytes) -> None:
        assert self.sealer is not None, "a session that was made has the peer's parameters"
        now = time.monotonic()
        self._last_sent_at = now
        self.write(self.sealer.seal(type_, plaintext, now))

    def _flush(self) -> None:
        while self._dtls.outbox:
            self.write(self._dtls.outbox.pop(0))

    def write(self, datagram: bytes) -> None:
        """Sends a datagram as it is."""
        try:
            self._socket.send(datagram)
        except (BlockingIOError, ConnectionError):
            # Lost, like any datagram may be. What matters is sent again.
            pass

    def _read(self, timeout_s: float) -> Optional[bytes]:
        ready, _, _ = select.select([self._socket], [], [], max(timeout_s, 0))
        if not ready:
            return None
        try:
            return self._socket.recv(_LONGEST_UDP_PAYLOAD)
        except (BlockingIOError, ConnectionError):
            # An ICMP error, which anybody can forge.
            return None


def _token_in(datagram: bytes, hello: bytes) -> Optional[bytes]:
    """The token of a retry of our hello; nothing if it is something else, which is dropped."""
    try:
        retry = Retry.parse(datagram)
    except Malformed:
        return None
    return retry.token if retry.answers(hello) else None


def _open_socket(address: Address) -> socket.socket:
    opened = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM)
    # Connected: the kernel drops what comes from elsewhere.
    opened.connect(address)
    opened.setblocking(False)
    return opened
