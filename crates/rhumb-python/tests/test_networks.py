"""Networks that this host has joined: by label, by being the only one, and never beside its node."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Callable, Iterator

import pytest
import rhumb
from conftest import Network, Running

Start = Callable[..., Running]

JOIN = """
import asyncio, sys, rhumb
async def main():
    async with rhumb.join(network={network}{more}) as node:
        print(node.name, flush=True)
        print((await node.status())["published"], flush=True)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def home(network: Network) -> Iterator[Network]:
    """A network called `home`, which this host keeps, and is a member of."""
    address = "127.%d.%d.%d" % tuple(random.randint(1, 254) for _ in range(3))
    network.run("network", "create", "home", "--address", address)
    running = Running(
        network.binary, "--json", "--with-parent", "network", "run", "--no-node", "home",
        folder=network.folder,
    )
    running.line()
    yield network
    running.end()


def test_a_network_is_joined_by_its_label_or_as_the_only_one(home: Network, python: Start) -> None:
    names = []
    for network in ("'home'", "True"):
        joined = python(text=JOIN.format(network=network, more=""))
        names.append(joined.line())
        code, lines, errors = joined.wait()
        assert (code, lines, errors) == (0, ["True"], "")
    # It is this host, both times.
    assert len(set(names)) == 1 and len(names[0]) == 52


def test_what_is_no_network_says_what_to_do(home: Network, python: Start) -> None:
    for network, more, problem in (
        ("'work'", "", "has joined no network that it calls `work`"),
        ("'../home'", "", "has joined no network"),
        ("'home'", ", router='127.0.0.1:1'", "leave out `router`"),
    ):
        code, lines, errors = python(text=JOIN.format(network=network, more=more)).wait()
        assert code == 1 and lines == []
        assert "InvalidError" in errors and problem in errors, errors


def test_nobody_takes_the_name_of_the_hosts_own_node(home: Network, python: Start) -> None:
    up = Running(home.binary, "--json", "--with-parent", "up", folder=home.folder)
    while '"role":"node"' not in up.line():
        pass
    code, _, errors = python(text=JOIN.format(network="'home'", more="")).wait()
    assert code == 1 and "BusyError" in errors and "`rhumb up` runs as" in errors, errors
    # It goes on, and so does whoever has a key of his own.
    data = Path(home.folder) / ".local/share/rhumb/networks/home"
    assert (data / "node.key").exists() and up.process.poll() is None
    other = python(text=JOIN.format(network="'home'", more=", key=rhumb.Identity.generate()"))
    code, _, errors = other.wait()
    assert code == 1 and "RefusedError" in errors, "only members are let in: " + errors
    up.end()
