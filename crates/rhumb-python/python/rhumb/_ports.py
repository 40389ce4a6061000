"""Datagrams between names: private, short, and perhaps lost."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from rhumb import _native
from rhumb._errors import ClosedError
from rhumb._scope import Scoped
from rhumb._waiting import wait_for


class Message(NamedTuple):
    """A datagram that arrived. Who sent it is proven."""

    sender: str
    """The name of who sent it."""
    port: Optional[int]
    """The port that it was sent from; `None` if its sender takes no answer."""
    to: str
    """The name that it was for: the node's own, or one that it serves."""
    as_member: bool
    """Whether its sender is a member of a domain for whose members the port is."""
    data: bytes
    """What was sent."""


class Port(Scoped):
    """A port of a node, for datagrams. `async for message in port` takes what arrives; what is not
    taken in time is dropped, oldest kept. Made by `Node.bind`."""

    def __init__(self, port: _native.Port) -> None:
        self._port = port

    @property
    def number(self) -> int:
        """The port's number."""
        return self._port.number

    async def receive(self) -> Message:
        """The next datagram. Who gives up waiting loses none. Raises `ClosedError` when the port is
        closed, or the node has left."""
        # Another one who waits may have taken what was there.
        while (arrived := self._port.take()) is None:
            if not await wait_for(self._port.ready):
                raise ClosedError("the port is closed, or its node has left; bind it anew")
        return Message(*arrived)

    async def send(self, to: str, port: int, data: Union[bytes, bytearray, memoryview]) -> None:
        """Sends a datagram to a port of a name, from this port. It waits for room; it may get lost,
        and nobody says so."""
        await wait_for(self._port.send, to, port, bytes(data))

    async def reply(self, message: Message, data: Union[bytes, bytearray, memoryview]) -> None:
        """Answers a datagram, in the name that it was for."""
        who = (message.sender, message.port, message.to)
        await wait_for(self._port.reply, who, bytes(data))

    async def close(self) -> None:
        """Receives no more. Others can bind the port from then on."""
        await wait_for(self._port.close)

    def __aiter__(self) -> Port:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.receive()
        except ClosedError:
            raise StopAsyncIteration from None

    async def _end(self) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<rhumb.Port {self.number}>"
