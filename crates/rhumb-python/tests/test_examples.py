"""The examples, as they are, in processes of their own."""

from __future__ import annotations

import re
from typing import Callable

from conftest import Network, Running

Start = Callable[..., Running]
SLOW_STEP = re.compile(r"Executing <.*> took \d+\.\d+ seconds")


def finished(running: Running) -> list[str]:
    code, lines, errors = running.wait()
    # How long a step of theirs took says how busy the machine is, and asyncio tells it in development mode.
    wrong = [line for line in errors.splitlines() if not SLOW_STEP.fullmatch(line)]
    assert code == 0 and not wrong, errors
    return lines


def test_ping(network: Network, python: Start) -> None:
    name = python("echo_server", network.router).line()
    lines = finished(python("ping", network.router, name))
    assert len(lines) == 3
    assert all(line.startswith(f"{name} answers after ") for line in lines)


def test_echo(network: Network, python: Start) -> None:
    name = network.run("keygen", "--out", "echo.key")["name"]
    server = python("echo_server", network.router, "echo.key")
    assert server.line() == name
    lines = finished(python("echo_client", network.router, name, "one", "two"))
    assert lines == ["one", "two"]
    assert server.process.poll() is None


def test_datagrams(network: Network, python: Start) -> None:
    receiver = python("datagrams", network.router)
    name = receiver.line()
    lines = finished(python("datagrams", network.router, name, "ahoy"))
    assert lines == [f"{name} answers 4 bytes"]
    assert receiver.line().endswith(" sends ahoy")


def test_a_page(network: Network, python: Start) -> None:
    name = python("web_server", network.router).line()
    status, page = finished(python("web_client", network.router, name, "/here"))
    assert status == "HTTP/1.1 200 OK"
    assert page.endswith("and asked for /here.</p>")


def test_a_capsule(network: Network, python: Start) -> None:
    (line,) = finished(python("capsule", network.router))
    assert line.endswith(" greets you")
