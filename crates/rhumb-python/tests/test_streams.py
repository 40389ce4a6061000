"""Streams: whole, in order, both ways, held back, ended from either end, and refused."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Awaitable, Callable, Optional

import pytest
import rhumb
from conftest import PATIENCE_S, Network

Handler = Callable[[rhumb.Stream], Awaitable[object]]


def between(
    network: Network, handler: Handler, work: Callable[..., Awaitable[Any]], **rules: Any
) -> Any:
    """What `work` comes to, with a client and a server, whose port 7 `handler` serves."""

    async def run() -> Any:
        async with rhumb.join(router=network.router) as server:
            async with rhumb.join(router=network.router) as client:
                rules.setdefault("allow", [client.name])
                async with server.serve(7, handler, **rules):
                    return await work(client, server)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


class Flag:
    """An event of the loop in which it is used first: before Python 3.10 one is made in a loop."""

    def __init__(self) -> None:
        self._event: Optional[asyncio.Event] = None

    def _in_loop(self) -> asyncio.Event:
        if self._event is None:
            self._event = asyncio.Event()
        return self._event

    def set(self) -> None:
        self._in_loop().set()

    async def wait(self) -> None:
        await self._in_loop().wait()


async def echo(stream: rhumb.Stream) -> None:
    while data := await stream.read(100_000):
        stream.write(data)
        await stream.drain()


def test_much_goes_both_ways_and_is_the_same(network: Network) -> None:
    sent = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(100_000))

    async def work(client: rhumb.Node, server: rhumb.Node) -> bytes:
        async with await client.connect(server.name, 7) as stream:
            assert (stream.peer, stream.local, stream.port) == (server.name, client.name, 7)

            async def write() -> None:
                for at in range(0, len(sent), 50_000):
                    stream.write(sent[at : at + 50_000])
                    await stream.drain()
                stream.write_eof()

            writing = asyncio.create_task(write())
            received = await stream.read()
            await writing
            assert stream.at_eof()
            return received

    assert between(network, echo, work) == sent


def test_who_does_not_read_holds_the_writer_back(network: Network) -> None:
    """What is written and not taken waits in a bounded place, and `drain` waits with it."""
    may_read, is_read = Flag(), Flag()
    taken: list[int] = []

    async def handler(stream: rhumb.Stream) -> None:
        await may_read.wait()
        taken.append(len(await stream.read()))
        is_read.set()

    async def work(client: rhumb.Node, server: rhumb.Node) -> tuple[int, bool]:
        stream = await client.connect(server.name, 7)
        piece, pieces = b"x" * (1 << 20), 0

        async def write() -> None:
            nonlocal pieces
            for _ in range(64):
                stream.write(piece)
                await stream.drain()
                pieces += 1

        writing = asyncio.create_task(write())
        before = -1
        # Until nothing moves any more.
        while pieces > before:
            before = pieces
            await asyncio.sleep(1)
        was_held_back = not writing.done()
        may_read.set()
        await writing
        stream.close()
        await stream.wait_closed()
        await is_read.wait()
        return before, was_held_back

    pieces, was_held_back = between(network, handler, work)
    assert was_held_back and pieces < 40, pieces
    assert taken == [64 << 20]


def test_each_end_may_finish_before_the_other(network: Network) -> None:
    async def count(stream: rhumb.Stream) -> None:
        data = await stream.read()
        stream.write(b"%d" % len(data))

    async def work(client: rhumb.Node, server: rhumb.Node) -> bytes:
        async with await client.connect(server.name, 7) as stream:
            stream.writelines([b"one", bytearray(b"two"), memoryview(b"three")])
            stream.write_eof()
            return await stream.read()

    assert between(network, count, work) == b"11"


def test_a_port_that_nobody_serves_is_refused(network: Network) -> None:
    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        stream = await client.connect(server.name, 8)
        await stream.read()

    with pytest.raises(rhumb.RefusedError, match="nothing is served on that port"):
        between(network, echo, work)


def test_who_is_not_allowed_gets_nowhere(network: Network) -> None:
    served: list[str] = []

    async def handler(stream: rhumb.Stream) -> None:
        served.append(stream.peer)

    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        stream = await client.connect(server.name, 7)
        stream.write(b"let me in")
        await stream.read()

    for nobody in ([], ["a" * 52], ["domain:" + "a" * 52]):
        with pytest.raises(rhumb.RefusedError, match="ask its holder to allow"):
            between(network, handler, work, allow=nobody)
    assert served == []


def test_a_handler_that_fails_is_told_to_both_ends(network: Network) -> None:
    told: list[dict[str, Any]] = []

    async def handler(stream: rhumb.Stream) -> None:
        raise RuntimeError("broken")

    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        stream = await client.connect(server.name, 7)
        await stream.read()

    with pytest.raises(rhumb.RefusedError, match="the program behind that port"):
        between(network, handler, work)
    assert len(told) == 1 and str(told[0]["exception"]) == "broken"


def test_an_abort_ends_the_other_end(network: Network) -> None:
    ends: list[BaseException] = []
    is_over = Flag()

    async def handler(stream: rhumb.Stream) -> None:
        stream.write(b"here")
        try:
            await stream.read()
        except rhumb.Error as error:
            ends.append(error)
        is_over.set()

    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        stream = await client.connect(server.name, 7)
        assert await stream.readexactly(4) == b"here"
        stream.abort()
        await is_over.wait()

    between(network, handler, work)
    assert len(ends) == 1 and isinstance(ends[0], rhumb.ClosedError)


def test_one_name_does_not_take_all_places(network: Network) -> None:
    """Of four places a flood by one name gets two, and somebody else is served."""
    may_end = Flag()

    async def handler(stream: rhumb.Stream) -> None:
        stream.write(b"served")
        await may_end.wait()

    async def first_word(stream: rhumb.Stream) -> bytes:
        try:
            return await stream.read(6)
        except rhumb.BusyError:
            return b"busy"

    async def work(client: rhumb.Node, server: rhumb.Node) -> tuple[list[bytes], bytes]:
        flood = [await client.connect(server.name, 7) for _ in range(8)]
        # Streams are opened in order, and the port shows with their first bytes.
        for stream in flood:
            stream.write(b"x")
        answers = await asyncio.gather(*map(first_word, flood))
        async with rhumb.join(router=network.router) as other:
            stream = await other.connect(server.name, 7)
            stream.write(b"x")
            answer = await first_word(stream)
            may_end.set()
            return sorted(answers), answer

    answers, other = between(network, handler, work, allow=rhumb.EVERYBODY, most=4)
    assert answers == [b"busy"] * 6 + [b"served"] * 2
    assert other == b"served"


def test_asyncios_own_streams_and_protocols_go_over_names(network: Network) -> None:
    class Upper(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data.upper())

    class Collect(asyncio.Protocol):
        def __init__(self) -> None:
            self.received = b""
            self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def data_received(self, data: bytes) -> None:
            self.received += data

        def connection_lost(self, error: object) -> None:
            self.end.set_result(None)

    async def work(client: rhumb.Node, server: rhumb.Node) -> tuple[bytes, bytes]:
        async with server.create_server(Upper, 17, allow=[client.name]):
            reader, writer = await client.open_connection(server.name, 17)
            writer.write(b"streams\n")
            first = await reader.readline()
            assert writer.get_extra_info("peername") == (server.name, 17)
            writer.close()
            await writer.wait_closed()
            transport, protocol = await client.create_connection(Collect, server.name, 17)
            transport.write(b"protocols")
            transport.write_eof()
            await protocol.end
            return first, protocol.received

    assert between(network, echo, work) == (b"STREAMS\n", b"PROTOCOLS")


def test_cancelled_waiting_ends_and_the_stream_goes_on(network: Network) -> None:
    async def work(client: rhumb.Node, server: rhumb.Node) -> bytes:
        async with await client.connect(server.name, 7) as stream:
            for _ in range(20):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(stream.readexactly(1), 0.01)
            stream.write(b"after all")
            return await stream.readexactly(9)

    assert between(network, echo, work) == b"after all"


def test_cancelled_connecting_ends(network: Network) -> None:
    async def run() -> None:
        async with rhumb.join(router=network.router, give_up_after=30.0) as node:
            connecting = asyncio.create_task(node.connect("a" * 52, 7))
            await asyncio.sleep(0.05)
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            with pytest.raises(rhumb.UnreachableError, match="no way to"):
                await node.ping("a" * 52)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_what_is_no_data_or_comes_too_late_is_refused(network: Network) -> None:
    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        async with await client.connect(server.name, 7) as stream:
            with pytest.raises(TypeError, match="data is to be bytes"):
                stream.write("text")  # type: ignore[arg-type]
            stream.write_eof()
            with pytest.raises(RuntimeError, match="nothing is written after"):
                stream.write(b"late")

    between(network, echo, work)


def test_who_closes_first_spoils_nothing_for_the_other(network: Network) -> None:
    """A server that answers and is gone is no error for who has read the answer, however late."""

    async def handler(stream: rhumb.Stream) -> None:
        stream.write(b"all there is")

    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        for pause in (0.0, 0.02, 0.2):
            async with await client.connect(server.name, 7) as stream:
                stream.write(b"a question that nobody reads")
                assert await stream.read() == b"all there is"
                await asyncio.sleep(pause)

    between(network, handler, work)


def test_a_protocol_that_fails_is_told_to_both_ends(network: Network) -> None:
    told: list[str] = []

    class Broken(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise RuntimeError("broken protocol")

    def fail() -> asyncio.Protocol:
        raise RuntimeError("broken factory")

    async def work(client: rhumb.Node, server: rhumb.Node) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: told.append(str(context["exception"]))
        )
        async with server.create_server(Broken, 17, allow=[client.name]):
            stream = await client.connect(server.name, 17)
            stream.write(b"x")
            with pytest.raises(rhumb.RefusedError, match="the program behind that port"):
                await stream.read()
        async with server.create_server(fail, 18, allow=[client.name]):
            stream = await client.connect(server.name, 18)
            stream.write(b"x")
            with pytest.raises(rhumb.Error):
                await stream.read()

    between(network, echo, work)
    assert told == ["broken protocol", "broken factory"]
