"""Files, over payloads of kind 2: an offer, its acceptance, chunks and acknowledgements, a verdict.

The simplest client that works: a small fixed number of chunks is under way, and what is not acknowledged in time is
sent again. It measures neither time nor loss.
"""

import hashlib
import secrets
import time
import unicodedata
from dataclasses import dataclass
from typing import List, Optional, Tuple, Union

from .errors import Malformed, Refused, TimedOut
from .names import Name
from .node import Node
from .payloads import TRANSFER, Payload
from .reader import Reader

OFFER, ACCEPT, CHUNK, ACK, FINISHED, CANCEL = range(1, 7)
INTACT, CORRUPT = 0, 1
TOO_LARGE = 3
REASONS = {
    1: "stopped",
    2: "declined",
    TOO_LARGE: "too large",
    4: "busy",
    5: "read failed",
    6: "write failed",
    7: "timed out",
    8: "unknown",
}

PORT = 0
MOST_RANGES = 48
# Fits every path that carries IPv6.
CHUNK_BYTES = 900
_CHUNKS_UNDER_WAY = 32
_PAUSE_S = 0.25
_LINGER_S = 0.3
_LARGEST_FILE = 64 << 20
# Those of writing direction, and the separators of lines and paragraphs.
_TEXT_CONTROLS = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class Offer:
    """A file is on offer."""

    transfer: int
    length: int
    sha256: bytes
    name: str

    def encode(self) -> bytes:
        """The body of the payload."""
        name = self.name.encode()
        return _header(OFFER, self.transfer) + _number(self.length, 8) + self.sha256 + _number(len(name), 1) + name


@dataclass(frozen=True)
class Accept:
    """The offer is taken."""

    transfer: int
    window: int

    def encode(self) -> bytes:
        """The body of the payload."""
        return _header(ACCEPT, self.transfer) + _number(self.window, 4)


@dataclass(frozen=True)
class Chunk:
    """Bytes of the file. ``number`` counts transmissions."""

    transfer: int
    number: int
    acknowledge_every: int
    offset: int
    content: bytes

    def encode(self) -> bytes:
        """The body of the payload."""
        head = _header(CHUNK, self.transfer) + _number(self.number, 4) + _number(self.acknowledge_every, 1)
        return head + _number(self.offset, 8) + self.content


@dataclass(frozen=True)
class Ack:
    """What has arrived: everything before ``cumulative``, and ``ranges`` beyond it."""

    transfer: int
    cumulative: int
    window: int
    newest: int
    ranges: Tuple[Tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        """The body of the payload."""
        parts = [_header(ACK, self.transfer), _number(self.cumulative, 8), _number(self.window, 4)]
        parts += [_number(self.newest, 4), _number(len(self.ranges), 1)]
        end_before = self.cumulative
        for start, end in self.ranges:
            parts += [_number(start - end_before, 4), _number(end - start, 4)]
            end_before = end
        return b"".join(parts)


@dataclass(frozen=True)
class Finished:
    """All bytes arrived, and this is what they amount to."""

    transfer: int
    verdict: int

    def encode(self) -> bytes:
        """The body of the payload."""
        return _header(FINISHED, self.transfer) + _number(self.verdict, 1)


@dataclass(frozen=True)
class Cancel:
    """The transfer ends without its file."""

    transfer: int
    reason: int

    def encode(self) -> bytes:
        """The body of the payload."""
        return _header(CANCEL, self.transfer) + _number(self.reason, 1)


Message = Union[Offer, Accept, Chunk, Ack, Finished, Cancel]


def parse(body: bytes) -> Message:
    """Reads the body of a payload of kind transfer."""
    reader = Reader(body, "transfer message")
    kind, transfer = reader.integer(1), reader.integer(8)
    message: Message
    if kind == OFFER:
        message = Offer(transfer, reader.integer(8), reader.take(32), checked_file_name(reader.vector(1)))
    elif kind == ACCEPT:
        message = Accept(transfer, reader.integer(4))
    elif kind == CHUNK:
        number, every, offset = reader.integer(4), reader.integer(1), reader.integer(8)
        message = Chunk(transfer, number, every, offset, reader.rest())
        if not message.content or offset + len(message.content) >= 1 << 64:
            raise Malformed("chunk: bounds")
    elif kind == ACK:
        message = _read_ack(reader, transfer)
    elif kind == FINISHED:
        message = Finished(transfer, reader.integer(1))
        if message.verdict not in (INTACT, CORRUPT):
            raise Malformed("finished: verdict")
    elif kind == CANCEL:
        message = Cancel(transfer, reader.integer(1))
        if message.reason not in REASONS:
            raise Malformed("cancel: reason")
    else:
        raise Malformed("transfer message: kind")
    reader.end()
    return message


def checked_file_name(octets: bytes) -> str:
    """A name that stays inside one folder and does nothing to a terminal."""
    try:
        name = octets.decode()
    except UnicodeDecodeError as error:
        raise Malformed("file name: not UTF-8") from error
    has_controls = any(unicodedata.category(c) == "Cc" or c in _TEXT_CONTROLS for c in name)
    if name in ("", ".", "..") or "/" in name or "\\" in name or has_controls or len(octets) > 255:
        raise Malformed("file name: not one that may travel")
    return name


def send_file(node: Node, to: Name, file_name: str, content: bytes, timeout_s: float = 30) -> None:
    """Sends a file and returns when the receiver has all of it, intact."""
    deadline = time.monotonic() + timeout_s
    transfer = secrets.randbits(64)
    offer = Offer(transfer, len(content), hashlib.sha256(content).digest(), file_name)
    acknowledged, may_send_to, sent_to = 0, 0, 0
    number = 0
    is_accepted = False
    while True:
        if not is_accepted:
            _send(node, to, offer)
        while sent_to < may_send_to:
            piece = content[sent_to:min(sent_to + CHUNK_BYTES, may_send_to)]
            _send(node, to, Chunk(transfer, number, 1, sent_to, piece))
            number += 1
            sent_to += len(piece)
        message = _await(node, to, transfer, _PAUSE_S)
        if time.monotonic() > deadline:
            raise TimedOut("the file did not arrive")
        if message is None:
            sent_to = acknowledged
        elif isinstance(message, Finished):
            _finish_sending(node, to, message)
            return
        elif isinstance(message, Cancel):
            _send(node, to, message)
            raise Refused(REASONS[message.reason])
        elif isinstance(message, (Accept, Ack)):
            is_accepted = True
            if isinstance(message, Ack):
                acknowledged = min(max(acknowledged, message.cumulative), len(content))
            under_way = min(message.window, _CHUNKS_UNDER_WAY * CHUNK_BYTES)
            may_send_to = min(acknowledged + under_way, len(content))
            sent_to = max(sent_to, acknowledged)


def receive_file(node: Node, timeout_s: float = 30) -> Tuple[Name, str, bytes]:
    """The next file that somebody offers: who sent it, its name, its content."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        received = _receive(node, deadline - time.monotonic())
        if received is None:
            continue
        sender, offer = received
        if not isinstance(offer, Offer):
            continue
        if offer.length > _LARGEST_FILE:
            _send(node, sender, Cancel(offer.transfer, TOO_LARGE))
            continue
        return sender, offer.name, _receive_content(node, sender, offer, deadline)
    raise TimedOut("no file was offered")


class _Arrived:
    """The bytes of a file, in whatever order they come."""

    def __init__(self, length: int):
        self.content = bytearray(length)
        self._ranges: List[Tuple[int, int]] = []

    def add(self, offset: int, piece: bytes) -> None:
        end = offset + len(piece)
        if end > len(self.content):
            raise Malformed("chunk: beyond the end of the file")
        self.content[offset:end] = piece
        merged: List[Tuple[int, int]] = []
        for start, stop in sorted(self._ranges + [(offset, end)]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
            else:
                merged.append((start, stop))
        self._ranges = merged

    def cumulative(self) -> int:
        return self._ranges[0][1] if self._ranges and self._ranges[0][0] == 0 else 0

    def beyond(self) -> Tuple[Tuple[int, int], ...]:
        ranges = self._ranges[1:] if self.cumulative() else self._ranges
        return tuple(ranges[:MOST_RANGES])


def _receive_content(node: Node, sender: Name, offer: Offer, deadline: float) -> bytes:
    arrived = _Arrived(offer.length)
    answer: Message = Accept(offer.transfer, _CHUNKS_UNDER_WAY * CHUNK_BYTES)
    newest = 0
    while True:
        _send(node, sender, answer)
        if arrived.cumulative() == offer.length:
            break
        message = _await(node, sender, offer.transfer, _PAUSE_S)
        if isinstance(message, Chunk):
            arrived.add(message.offset, message.content)
            newest = max(newest, message.number)
            window = _CHUNKS_UNDER_WAY * CHUNK_BYTES
            answer = Ack(offer.transfer, arrived.cumulative(), window, newest, arrived.beyond())
        elif isinstance(message, Cancel):
            _send(node, sender, message)
            raise Refused(REASONS[message.reason])
        if time.monotonic() > deadline:
            raise TimedOut("the file did not arrive")
    content = bytes(arrived.content)
    is_intact = hashlib.sha256(content).digest() == offer.sha256
    _tell_verdict(node, sender, Finished(offer.transfer, INTACT if is_intact else CORRUPT))
    if not is_intact:
        raise Refused("the file is not the one that was offered")
    return content


def _tell_verdict(node: Node, sender: Name, finished: Finished) -> None:
    for _ in range(8):
        _send(node, sender, finished)
        # The sender repeats it, and then we know that it knows.
        until = time.monotonic() + _PAUSE_S
        while time.monotonic() < until:
            if _await(node, sender, finished.transfer, until - time.monotonic()) == finished:
                return


def _finish_sending(node: Node, to: Name, finished: Finished) -> None:
    _send(node, to, finished)
    until = time.monotonic() + _LINGER_S
    while time.monotonic() < until:
        if _await(node, to, finished.transfer, until - time.monotonic()) == finished:
            _send(node, to, finished)
    if finished.verdict != INTACT:
        raise Refused("the file arrived damaged")


def _await(node: Node, peer: Name, transfer: int, timeout_s: float) -> Optional[Message]:
    """The next message of one transfer."""
    deadline = time.monotonic() + timeout_s
    while (left_s := deadline - time.monotonic()) > 0:
        received = _receive(node, left_s)
        if received is not None and received[0] == peer and received[1].transfer == transfer:
            return received[1]
    return None


def _receive(node: Node, timeout_s: float) -> Optional[Tuple[Name, Message]]:
    pdu = node.poll(timeout_s)
    if pdu is None:
        return None
    try:
        payload = Payload.parse(pdu.data)
        return (pdu.source, parse(payload.body)) if payload.kind == TRANSFER else None
    except Malformed:
        # Noise is dropped.
        return None


def _send(node: Node, to: Name, message: Message) -> None:
    node.send(to, Payload(TRANSFER, PORT, message.encode()))


def _read_ack(reader: Reader, transfer: int) -> Ack:
    cumulative, window, newest = reader.integer(8), reader.integer(4), reader.integer(4)
    count = reader.integer(1)
    if count > MOST_RANGES:
        raise Malformed("ack: too many ranges")
    ranges = []
    end = cumulative
    for _ in range(count):
        gap, length = reader.integer(4), reader.integer(4)
        if gap == 0 or length == 0:
            raise Malformed("ack: an empty range or gap")
        start = end + gap
        end = start + length
        ranges.append((start, end))
    if end >= 1 << 64:
        raise Malformed("ack: bounds")
    return Ack(transfer, cumulative, window, newest, tuple(ranges))


def _header(kind: int, transfer: int) -> bytes:
    return _number(kind, 1) + _number(transfer, 8)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big")
