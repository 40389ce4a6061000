"""Datagrams: who sent them, who may, answers, and that waiting loses none."""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable

import pytest
import rhumb
from conftest import PATIENCE_S, Network


def with_two(network: Network, work: Callable[..., Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with rhumb.join(router=network.router) as one:
            async with rhumb.join(router=network.router) as other:
                return await work(one, other)

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_who_sent_it_is_said_and_can_be_answered(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> None:
        async with one.bind(9, allow=[other.name]) as here, other.bind(allow=[one.name]) as there:
            assert here.number == 9 and there.number >= 49152
            await there.send(one.name, 9, memoryview(b"hello"))
            message = await here.receive()
            assert tuple(message) == (other.name, there.number, one.name, False, b"hello")
            await here.reply(message, b"and hello to you")
            answer = await there.receive()
            assert (answer.sender, answer.port, answer.data) == (one.name, 9, b"and hello to you")

    with_two(network, work)


def test_who_gives_up_waiting_loses_nothing(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> list[bytes]:
        received: list[bytes] = []
        async with one.bind(9, allow=[other.name]) as here, other.bind(allow=[]) as there:

            async def send() -> None:
                for number in range(100):
                    await there.send(one.name, 9, b"%d" % number)
                    await asyncio.sleep(0.002)

            sending = asyncio.create_task(send())
            while len(received) < 100:
                # Cancelled again and again, just when something arrives among other times.
                with pytest.raises((asyncio.TimeoutError, GotIt)):
                    received.append(
                        (await asyncio.wait_for(here.receive(), 0.003)).data
                    )
                    raise GotIt
            await sending
        return received

    class GotIt(Exception):
        pass

    assert with_two(network, work) == [b"%d" % number for number in range(100)]


def test_two_who_wait_get_one_each(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> list[bytes]:
        async with one.bind(9, allow=[other.name]) as here:
            waiting = [asyncio.create_task(here.receive()) for _ in range(2)]
            await other.send(one.name, 9, b"first")
            await other.send(one.name, 9, b"second")
            messages = await asyncio.gather(*waiting)
            assert all(message.port is None for message in messages)
            with pytest.raises(rhumb.InvalidError, match="takes no answer"):
                await here.reply(messages[0], b"why")
            return sorted(message.data for message in messages)

    assert with_two(network, work) == [b"first", b"second"]


def test_a_stranger_is_not_heard(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> None:
        async with one.bind(9, allow=["a" * 52]) as here:
            with pytest.raises(rhumb.RefusedError):
                # The first may go out before the other end has said what it takes.
                for _ in range(100):
                    await other.send(one.name, 9, b"hear me")
                    await asyncio.sleep(0.05)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(here.receive(), 0.2)

    with_two(network, work)


def test_what_is_too_long_says_how_long_it_may_be(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> None:
        async with one.bind(9, allow=[other.name]) as here:
            with pytest.raises(rhumb.TooBigError, match="100000 bytes do not fit.*at most"):
                await other.send(one.name, 9, bytes(100_000))
            receiving = asyncio.create_task(here.receive())
            # A datagram may get lost.
            while not receiving.done():
                await other.send(one.name, 9, bytes(1100))
                await asyncio.wait([receiving], timeout=1)
            assert len((await receiving).data) == 1100

    with_two(network, work)


def test_a_port_has_one_receiver_and_is_free_once_closed(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> None:
        port = one.bind(9, allow=[])
        with pytest.raises(rhumb.BusyError, match="port 9 .* has a receiver already"):
            one.bind(9, allow=[])
        waiting = asyncio.create_task(port.receive())
        await asyncio.sleep(0.05)
        await port.close()
        with pytest.raises(rhumb.ClosedError):
            await waiting
        assert [message async for message in port] == []
        async with one.bind(9, allow=[]):
            pass

    with_two(network, work)


def test_leaving_ends_whoever_waits(network: Network) -> None:
    async def work(one: rhumb.Node, other: rhumb.Node) -> None:
        port = one.bind(9, allow=[])
        server = one.serve(9, lambda stream: asyncio.sleep(0), allow=[])
        waiting = asyncio.create_task(port.receive())
        await asyncio.sleep(0.05)
        assert await one.leave()
        with pytest.raises(rhumb.ClosedError):
            await waiting
        await server.serve_forever()
        with pytest.raises(rhumb.ClosedError, match="join again"):
            await one.status()

    with_two(network, work)
