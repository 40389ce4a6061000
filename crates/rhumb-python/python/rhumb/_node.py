"""A node: a name that is joined to a router, and everything that it can do."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import TracebackType
from typing import (
    Any,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    NamedTuple,
    Optional,
    TypeVar,
    Union,
)

from rhumb import _native
from rhumb._errors import Error
from rhumb._keys import AdCert, Identity
from rhumb._ports import Port
from rhumb._progress import OnProgress, with_progress
from rhumb._scope import Scoped
from rhumb._server import DEFAULT_MOST, Server
from rhumb._streams import Stream
from rhumb._transport import StreamTransport
from rhumb._waiting import wait_for

_Path = Union[str, "os.PathLike[str]"]
_Allow = Union[str, Iterable[str]]
_ProtocolT = TypeVar("_ProtocolT", bound=asyncio.BaseProtocol)

EVERYBODY = "everybody"
"""Who may use a port, if anybody may who knows the node's name."""

#: What a file may have that is received, unless told otherwise: 1 GiB.
DEFAULT_MOST_BYTES = 1 << 30


class ReceivedFile(NamedTuple):
    """A file that was received, whole and as it was sent."""

    path: Path
    """Where it is."""
    sender: str
    """The name of who sent it: proven."""
    to: str
    """The name that it was for: the node's own, or one that it serves."""
    size: int
    """Its bytes."""


class Node(Scoped):
    """A name that is joined to a router. It stays joined: its lease is renewed, and a lost router is
    found again, until it leaves. Made by `join`."""

    def __init__(self, node: _native.Node) -> None:
        self._node = node

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.name

    async def connect(self, name: str, port: int) -> Stream:
        """A stream to a port of a name. Whether the port is served shows when something is read."""
        return Stream(await wait_for(self._node.open, name, port))

    async def open_connection(
        self, name: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As `connect`, for what wants what `asyncio.open_connection` gives."""
        stream = await self.connect(name, port)
        return stream.reader, stream.writer

    async def create_connection(
        self, protocol_factory: Callable[[], _ProtocolT], name: str, port: int
    ) -> tuple[asyncio.Transport, _ProtocolT]:
        """As `connect`, for what wants what `loop.create_connection` gives."""
        stream = await wait_for(self._node.open, name, port)
        protocol = protocol_factory()
        transport = StreamTransport(asyncio.get_running_loop(), stream, protocol)
        return transport, protocol

    def serve(
        self,
        port: int,
        handler: Callable[[Stream], Awaitable[object]],
        *,
        allow: _Allow,
        most: int = DEFAULT_MOST,
    ) -> Server:
        """Has `handler` serve each stream that is opened to a port of this node, or of a name that
        it serves. Only those may whom `allow` names: names, `domain:NAME` for the members of a
        trust domain, or `EVERYBODY`. Of `most` streams at once nobody has more than half of what
        the others leave. A stream ends with its handler; if that fails, the other end is told so."""

        async def begin(native: _native.Stream) -> None:
            stream = Stream(native)
            try:
                await handler(stream)
                stream.close()
                await stream.wait_closed()
            except asyncio.CancelledError:
                stream.abort()
                raise
            except ConnectionError:
                # The other end has gone, which is no fault of the handler's.
                stream.abort()
            except Exception:
                stream.fail()
                raise

        return self._listen(port, begin, allow, most)

    def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        port: int,
        *,
        allow: _Allow,
        most: int = DEFAULT_MOST,
    ) -> Server:
        """As `serve`, for what wants what `loop.create_server` gives: web servers, for example."""
        loop = asyncio.get_running_loop()

        async def begin(native: _native.Stream) -> None:
            lost: asyncio.Future[None] = loop.create_future()
            transport = StreamTransport(loop, native, protocol_factory(), lost)
            try:
                await lost
            finally:
                transport.abort()

        return self._listen(port, begin, allow, most)

    def _listen(
        self, port: int, begin: Callable[[_native.Stream], Any], allow: _Allow, most: int
    ) -> Server:
        # It is an error outside of a loop, and then nothing has begun.
        asyncio.get_running_loop()
        return Server(self._node.listen(port, _words(allow)), begin, most)

    def bind(self, port: int = 0, *, allow: _Allow) -> Port:
        """A port for datagrams; 0 takes any that is free. Only those can send to it whom `allow`
        names, as for `serve`: for answers, too, name who answers."""
        return Port(self._node.bind(port, _words(allow)))

    async def send(
        self, to: str, port: int, data: Union[bytes, bytearray, memoryview]
    ) -> None:
        """Sends a datagram to a port of a name. It cannot be answered; `bind` a port for that."""
        await wait_for(self._node.send, to, port, bytes(data))

    async def ping(self, name: str, timeout: float = 5.0) -> float:
        """The round trip to a name, in seconds."""
        round_trip: float = await wait_for(self._node.ping, name, timeout)
        return round_trip

    async def serve_name(self, ad_cert: Union[AdCert, _Path]) -> Service:
        """Answers for the owner of an AdCert that names this node: what is for that name arrives
        here, too. Returns when everybody can find it."""
        if not isinstance(ad_cert, AdCert):
            ad_cert = AdCert.load(ad_cert)
        return Service(await wait_for(self._node.serve, ad_cert))

    async def send_file(
        self, to: str, path: _Path, *, progress: Optional[OnProgress] = None
    ) -> int:
        """Sends a file to a name, under its own name, to `receive_file` or `rhumb receive` there:
        how many bytes that were. It arrives whole, or this fails. Cancelled, it stops. `progress`
        is called with how many bytes have arrived and how many there are, some times a second and
        once in the end; what it raises stops the file, and is raised here."""

        def begin(courier: Any, future: Any, noted: Optional[_native.Progress]) -> int:
            return self._node.send_file(courier, future, to, os.fspath(path), noted)

        sent: int = await with_progress(begin, progress)
        return sent

    async def receive_file(
        self,
        folder: _Path,
        *,
        allow: _Allow,
        most: int = DEFAULT_MOST_BYTES,
        progress: Optional[OnProgress] = None,
    ) -> ReceivedFile:
        """Receives one file of up to `most` bytes into a folder, under its sender's name for it.
        Only those can send it whom `allow` names, as for `serve`. One whose name is taken is
        declined, and so are folders. Cancelled, it stops, and nothing is left of it. `progress` is
        called as by `send_file`, from when a file comes."""
        bounds = (_words(allow), most)

        def begin(courier: Any, future: Any, noted: Optional[_native.Progress]) -> int:
            return self._node.receive_file(courier, future, os.fspath(folder), bounds, noted)

        return ReceivedFile(*await with_progress(begin, progress))

    async def status(self) -> dict[str, Any]:
        """How it is: its router, its lease, what went in and out, and what was dropped and why."""
        status: dict[str, Any] = json.loads(await wait_for(self._node.status))
        return status

    async def leave(self) -> bool:
        """Withdraws the name, and ends everything of this node. Whether the router confirmed that;
        if not, the name is forgotten within ten minutes."""
        is_withdrawn: bool = await wait_for(self._node.leave)
        return is_withdrawn

    async def _end(self) -> None:
        await self.leave()

    def __repr__(self) -> str:
        return f"<rhumb.Node {self.name}>"


class Service(Scoped):
    """A name that a node answers for, until this is closed. Made by `Node.serve_name`."""

    def __init__(self, service: _native.Service) -> None:
        self._service: Optional[_native.Service] = service
        self._name = service.name

    @property
    def name(self) -> str:
        """The name served."""
        return self._name

    async def renew(self, ad_cert: Union[AdCert, _Path]) -> None:
        """Goes on by a newer AdCert of the same owner; the name is served all the while."""
        if not isinstance(ad_cert, AdCert):
            ad_cert = AdCert.load(ad_cert)
        if self._service is None:
            raise Error("the name is served no longer; serve it anew")
        await wait_for(self._service.renew, ad_cert)

    def close(self) -> None:
        """Serves the name no longer."""
        self._service = None

    async def _end(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rhumb.Service of {self._name}>"


class _Joining:
    """What `join` returns: to be awaited, or entered by `async with`, which leaves in the end."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._node: Optional[Node] = None

    async def _join(self) -> Node:
        return Node(await wait_for(_native.Node.join, *self._arguments))

    def __await__(self) -> Generator[Any, None, Node]:
        return self._join().__await__()

    async def __aenter__(self) -> Node:
        self._node = await self._join()
        return self._node

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._node is not None:
            await self._node.leave()


def join(
    *,
    router: Optional[str] = None,
    network: Union[str, bool, None] = None,
    key: Union[Identity, _Path, None] = None,
    passphrase: Optional[str] = None,
    roots: Iterable[str] = (),
    only: Iterable[str] = (),
    local_address: Optional[str] = None,
    timeout: float = 5.0,
    give_up_after: float = 5.0,
    require_published: bool = True,
    tls: bool = True,
) -> _Joining:
    """Joins a network: `async with rhumb.join(..) as node`, which leaves in the end, or
    `node = await rhumb.join(..)`.

    router: where one is, and who it must prove to be: `NAME@ADDRESS`. By its address alone whoever
        answers there is believed. Without any, one is found on the local network, or else among
        `roots`, which are tried in order; where `only` has names, no other router is joined.
    network: what this host calls a network that it has joined with `rhumb join`, or `True` for the
        only one: its router is joined, with the host's key there, unless `key` is given. Not while
        `rhumb up` runs with that key.
    key: an `Identity`, or the path of a key file, as `rhumb keygen` makes them; the membership that
        lies beside it is shown. Without any, the node has a name of the moment.
    passphrase: opens a sealed key file; without it, that in `RHUMB_PASSPHRASE`.
    local_address: from where, as `192.0.2.1:0`.
    timeout: how many seconds joining may take.
    give_up_after: for how many seconds what is sent is offered to the network.
    require_published: whether to fail if no RIB stores the name, by which others find it.
    tls: whether to go over TLS on TCP where UDP is blocked, to routers that take it.
    """
    if isinstance(key, Identity):
        identity, path = key, None
    else:
        identity, path = None, None if key is None else os.fspath(key)
    if passphrase is None:
        passphrase = os.environ.get("RHUMB_PASSPHRASE")
    options = {
        "router": router,
        "network": network,
        "roots": list(roots),
        "only": list(only),
        "bind": local_address,
        "timeout": timeout,
        "give_up_after": give_up_after,
        "require_published": require_published,
        "tls": tls,
    }
    return _Joining(identity, (path, passphrase), options)


def _words(allow: _Allow) -> list[str]:
    return [allow] if isinstance(allow, str) else list(allow)
