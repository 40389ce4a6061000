"""Beginnings and ends: of loops, threads, processes and objects, in every order."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from typing import Callable

import pytest
import rhumb
from conftest import PATIENCE_S, Network, Running

Start = Callable[..., Running]


def test_waiting_blocks_nobody(network: Network) -> None:
    """While a name is looked for in vain, the loop turns, and so do other threads."""
    turns = {"loop": 0, "thread": 0}

    async def run() -> None:
        is_over = threading.Event()

        def count() -> None:
            while not is_over.wait(0.01):
                turns["thread"] += 1

        async def turn() -> None:
            while True:
                await asyncio.sleep(0.01)
                turns["loop"] += 1

        thread = threading.Thread(target=count)
        thread.start()
        turning = asyncio.create_task(turn())
        with pytest.raises(rhumb.UnreachableError, match="no router answers at 127.0.0.1:9"):
            await rhumb.join(router="127.0.0.1:9", timeout=1.0)
        turning.cancel()
        is_over.set()
        thread.join()

    asyncio.run(run())
    assert turns["loop"] > 10 and turns["thread"] > 10, turns


def test_a_node_goes_on_from_one_loop_to_the_next(network: Network) -> None:
    node = asyncio.run(join(network))
    assert asyncio.run(router_of(node)) in network.router
    assert asyncio.run(node.leave())


def test_threads_have_loops_of_their_own(network: Network) -> None:
    node = asyncio.run(join(network))
    routers: list[str] = []

    def ask() -> None:
        for _ in range(10):
            routers.append(asyncio.run(router_of(node)))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(routers) == 40 and len(set(routers)) == 1
    assert asyncio.run(node.leave())


def test_objects_that_are_dropped_end(network: Network) -> None:
    async def run() -> None:
        async with rhumb.join(router=network.router) as node:
            port = node.bind(9, allow=[])
            del port
            gc.collect()
            node.bind(9, allow=[])
        other = await join(network)
        name = other.name
        del other
        gc.collect()
        async with rhumb.join(router=network.router) as node:
            with pytest.raises(rhumb.Error):
                for _ in range(100):
                    await node.ping(name, 0.2)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_a_call_outside_of_a_loop_is_refused(network: Network) -> None:
    node = asyncio.run(join(network))
    with pytest.raises(RuntimeError, match="no running event loop"):
        node.serve(7, lambda stream: asyncio.sleep(0), allow=[])
    # And nothing is left of it.
    asyncio.run(serve_once(node))
    assert asyncio.run(node.leave())


def test_a_program_may_end_at_any_time(network: Network, python: Start) -> None:
    """In the middle of everything, without leaving: it ends well, and prints nothing."""
    text = """
import asyncio, logging, sys, threading
import rhumb

# Asyncio says how long its steps take, which is no matter here.
logging.disable(logging.WARNING)

async def main(router, how):
    node = await rhumb.join(router=router)
    server = node.serve(7, lambda stream: stream.read(), allow=rhumb.EVERYBODY)
    port = node.bind(9, allow=rhumb.EVERYBODY)
    joining = rhumb.join(router=router)
    waits = port.receive(), node.connect("a" * 52, 1), node.ping("a" * 52), joining._join()
    tasks = [asyncio.ensure_future(it) for it in waits]
    await asyncio.sleep(0.01)
    if how == "exit":
        sys.exit(0)
    if how == "threads":
        for _ in range(8):
            ask = threading.Thread(target=lambda: asyncio.run(node.status()), daemon=True)
            ask.start()

how = sys.argv[2]
if how == "loop":
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main(*sys.argv[1:]))
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    # Not until they have ended: what they waited for is still under way.
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
else:
    asyncio.run(main(*sys.argv[1:]))
print("done", flush=True)
"""
    for how in ("return", "exit", "loop", "threads"):
        for _ in range(3):
            code, lines, errors = python(None, network.router, how, text=text).wait()
            assert code == 0, (how, errors)
            assert errors == "", (how, errors)
            assert lines == ([] if how == "exit" else ["done"]), how


def test_a_fork_is_noticed_and_the_parent_goes_on(network: Network, python: Start) -> None:
    text = """
import asyncio, os, sys
import rhumb

async def joined(router):
    return await rhumb.join(router=router)

node = asyncio.run(joined(sys.argv[1]))
port = node.bind(9, allow=[])
child = os.fork()
if child == 0:
    try:
        asyncio.run(node.status())
    except rhumb.ClosedError as error:
        print(error)
    del port, node
    own = asyncio.run(joined(sys.argv[1]))
    print("child joined" if asyncio.run(own.leave()) else "child did not leave", flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
async def rest():
    await port.close()
    return (await node.status())["joined"] and await node.leave()
print("parent goes on" if asyncio.run(rest()) and status == 0 else f"no: {status}")
"""
    code, lines, errors = python(None, network.router, text=text).wait()
    assert code == 0, errors
    assert "this process was forked" in lines[0]
    assert lines[1:] == ["child joined", "parent goes on"]


async def join(network: Network) -> rhumb.Node:
    return await rhumb.join(router=network.router)


async def router_of(node: rhumb.Node) -> str:
    router: str = (await node.status())["router"]
    return router


async def serve_once(node: rhumb.Node) -> None:
    async with node.serve(7, lambda stream: asyncio.sleep(0), allow=[]) as server:
        assert server.port == 7 and server.is_serving()


def test_an_interrupt_ends_a_server_and_withdraws_its_name(
    network: Network, python: Start
) -> None:
    server = python("echo_server", network.router)
    name = server.line()
    server.process.send_signal(signal.SIGINT)
    code, _, errors = server.wait()
    assert code != 0 and errors.rstrip().endswith("KeyboardInterrupt"), errors

    async def run() -> None:
        async with rhumb.join(router=network.router) as node:
            with pytest.raises(rhumb.UnreachableError):
                await node.ping(name)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
