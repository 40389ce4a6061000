"""Files: whole, by their senders' names, with the commands, and never in the place of another."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Callable

import pytest
import rhumb
from conftest import PATIENCE_S, Network, Running, environment

Start = Callable[..., Running]


def test_the_example_and_the_command_send_to_it(
    network: Network, python: Start, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "chart").write_bytes(bytes(300_000))
    (tmp_path / "log").write_bytes(b"calm")
    receiver = python("files", network.router, str(tmp_path / "in"))
    name = receiver.line()
    code, lines, errors = python("files", network.router, str(tmp_path / "chart"), name).wait()
    assert (code, lines, errors) == (0, ["300000 bytes are there"], "")
    assert receiver.line() == "chart has 300000 bytes"
    command = [network.binary, "send", str(tmp_path / "log"), "--to", name]
    subprocess.run(
        [*command, "--router", network.router],
        env=environment(network.folder), check=True, timeout=PATIENCE_S, capture_output=True,
    )
    assert receiver.line() == "log has 4 bytes"
    files = {path.name: path.stat().st_size for path in (tmp_path / "in").iterdir()}
    assert files == {"chart": 300_000, "log": 4}


def test_what_is_there_large_or_a_strangers_is_declined(network: Network, tmp_path: Path) -> None:
    folder, path = tmp_path / "in", tmp_path / "chart"
    folder.mkdir()
    path.write_bytes(b"new")
    (folder / "chart").write_bytes(b"old")

    async def run() -> None:
        async with rhumb.join(router=network.router) as one:
            async with rhumb.join(router=network.router) as other:
                receiving = asyncio.create_task(
                    one.receive_file(folder, allow=[other.name], most=3)
                )
                await asyncio.sleep(0.1)
                with pytest.raises(rhumb.RefusedError, match="ended by the other end"):
                    await other.send_file(one.name, path)
                path.write_bytes(b"larger")
                (folder / "chart").unlink()
                with pytest.raises(rhumb.RefusedError):
                    await other.send_file(one.name, path)
                async with rhumb.join(router=network.router) as stranger:
                    path.write_bytes(b"bad")
                    with pytest.raises(rhumb.RefusedError):
                        await stranger.send_file(one.name, path)
                path.write_bytes(b"new")
                assert await other.send_file(one.name, path) == 3
                received = await receiving
                assert received == (folder / "chart", other.name, one.name, 3)
                with pytest.raises(rhumb.InvalidError, match="is no folder"):
                    await one.receive_file(tmp_path / "none", allow=[])
                with pytest.raises(rhumb.Error, match="No such file"):
                    await one.send_file(other.name, tmp_path / "none")

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert [path.name for path in folder.iterdir()] == ["chart"]


def test_who_wants_to_know_is_told_how_far_a_file_is(network: Network, tmp_path: Path) -> None:
    folder, path, size = tmp_path / "in", tmp_path / "chart", 3_000_000
    folder.mkdir()
    path.write_bytes(bytes(size))
    sent: list[tuple[int, int]] = []
    arrived: list[tuple[int, int]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def note(done: int, all: int) -> None:
            # It is the loop that calls: nothing has to be locked.
            assert asyncio.get_running_loop() is loop
            sent.append((done, all))

        async with rhumb.join(router=network.router) as one:
            async with rhumb.join(router=network.router) as other:
                receiving = asyncio.create_task(
                    one.receive_file(
                        folder, allow=[other.name],
                        progress=lambda done, all: arrived.append((done, all)),
                    )
                )
                assert await other.send_file(one.name, path, progress=note) == size
                await receiving

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    for told in (sent, arrived):
        assert told[-1] == (size, size)
        assert all(done <= size and of == size for done, of in told)
        assert told == sorted(set(told)), "it only grows, and says nothing twice"


def test_what_progress_raises_stops_the_file(network: Network, tmp_path: Path) -> None:
    folder, path = tmp_path / "in", tmp_path / "chart"
    folder.mkdir()
    path.write_bytes(bytes(64_000_000))

    async def run() -> None:
        async with rhumb.join(router=network.router) as one:
            async with rhumb.join(router=network.router) as other:
                receiving = asyncio.create_task(one.receive_file(folder, allow=[other.name]))
                await asyncio.sleep(0)

                def enough(done: int, all: int) -> None:
                    raise ValueError("enough of it")

                with pytest.raises(ValueError, match="enough of it"):
                    await other.send_file(one.name, path, progress=enough)
                # Either it was called while the file was on its way, or in the end.
                if not receiving.done():
                    receiving.cancel()
                await asyncio.wait((receiving,))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
