"""Carries the datagrams of connections (section 9.2) for a QUIC stack that knows nothing of PDUs.

The stack is another process on this host. It sends and gets UDP datagrams on loopback: the name of the other end, then
the QUIC datagram, so names are its addresses. What is longer than a PDU travels in halves. The stack must not probe for
the path's size, since probes are not to be halved, and nobody else sees which datagrams they are.
"""

import select
import socket
import threading
import time
from collections import OrderedDict
from typing import Optional, Tuple

from .certificates import Address
from .errors import Malformed
from .names import Name
from .node import Node
from .payloads import CONNECTION, HALF, HEADER_LENGTH, Half, Payload
from .pdus import Pdu

_NAME_LENGTH = 32
_LONGEST_UDP_PAYLOAD = 65_535
_MOST_WAITING = 256
_WAITS_FOR_S = 0.5
_LOOK_AROUND_S = 0.2


class Halves:
    """Halves that wait for their others: (source, number) to half and when it came."""

    def __init__(self) -> None:
        self._waiting: "OrderedDict[Tuple[Name, int], Tuple[Half, float]]" = OrderedDict()

    def join(self, source: Name, number: int, half: Half, now: float) -> Optional[bytes]:
        """The datagram, if this half completes it."""
        other, since = self._waiting.get((source, number), (None, 0.0))
        if other is None or now - since > _WAITS_FOR_S:
            self._waiting[source, number] = (half, now)
            self._waiting.move_to_end((source, number))
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popitem(last=False)
            return None
        if other.is_second == half.is_second:
            return None
        del self._waiting[source, number]
        first, second = (other, half) if half.is_second else (half, other)
        return first.octets + second.octets


class Carrier:
    """A node whose connections are another process's. Its name, or one that it answers for, is the stack's."""

    def __init__(self, node: Node, name: Optional[Name] = None):
        self._node = node
        self._name = name or node.name
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        # Where the stack is: known when it has sent something.
        self._stack: Optional[Address] = None
        # Who gets what the stack sends to a name: a router that leads elsewhere, for tests.
        self.redirected: "dict[Name, Name]" = {}
        self._halves = Halves()
        self._next_number = 0
        # How many datagrams went or came in halves.
        self.halved = self.joined = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where the stack sends to."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Ends it; the node stays."""
        self._is_over.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            # What the node has yet to do by itself, it does at each look.
            select.select([self._socket, self._node.session], [], [], _LOOK_AROUND_S)
            while (pdu := self._node.poll(0)) is not None:
                try:
                    self._take(pdu)
                except Malformed:
                    # Dropped, as anything that does not parse.
                    continue
            self._send_all()

    def _take(self, pdu: Pdu) -> None:
        payload = Payload.parse(pdu.data)
        source = self._other(pdu.source)
        if pdu.destination != self._name or self._stack is None:
            return
        if payload.kind == CONNECTION:
            datagram: Optional[bytes] = payload.body
        elif payload.kind == HALF:
            datagram = self._halves.join(source, payload.port, Half.parse(payload.body), time.monotonic())
            self.joined += datagram is not None
        else:
            return
        if datagram:
            self._socket.sendto(source.octets + datagram, self._stack)

    def _other(self, source: Name) -> Name:
        """Whom the stack takes a source for."""
        return next((asked for asked, led_to in self.redirected.items() if led_to == source), source)

    def _send_all(self) -> None:
        while True:
            try:
                framed, self._stack = self._socket.recvfrom(_LONGEST_UDP_PAYLOAD)
            except (BlockingIOError, ConnectionError):
                return
            if len(framed) > _NAME_LENGTH:
                name = Name(framed[:_NAME_LENGTH])
                self._send(self.redirected.get(name, name), framed[_NAME_LENGTH:])

    def _send(self, destination: Name, datagram: bytes) -> None:
        if HEADER_LENGTH + len(datagram) <= self._node.longest_data:
            self._node.send(destination, Payload(CONNECTION, 0, datagram), self._name)
            return
        self.halved += 1
        self._next_number = (self._next_number + 1) & 0xFFFF
        middle = len(datagram) // 2
        for half in (Half(False, datagram[:middle]), Half(True, datagram[middle:])):
            self._node.send(destination, Payload(HALF, self._next_number, half.encode()), self._name)
