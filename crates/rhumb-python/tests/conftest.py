"""A RIB and a router of the real binary on loopback, for all tests. They end with this process."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Callable, Iterator, Optional

import pytest

PATIENCE_S = 60
# What children are told of this process's environment.
KEPT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "TMPDIR")
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


# Where these tests are started in the background of a shell, interrupts are ignored, and would be by what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


class Running:
    """A program, and the lines that it prints."""

    def __init__(self, *command: str, folder: str) -> None:
        # Daemons end with their standard input, and so even if this process is killed.
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def _read_errors(self) -> None:
        assert self.process.stderr
        self._errors.extend(self.process.stderr)

    def line(self) -> str:
        """What it prints next."""
        try:
            return self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError(f"it printed nothing in time: {self._errors}") from None

    def wait(self) -> tuple[int, list[str], str]:
        """Its code, the lines that are left, and its errors, once it has ended."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return code, lines, "".join(self._errors)

    def end(self) -> None:
        """Ends it, if it has not."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Network:
    """Where a router is, and a folder for files."""

    def __init__(self, folder: str) -> None:
        binary = os.environ.get("RHUMB_BINARY")
        if not binary:
            pytest.skip("RHUMB_BINARY does not name the binary `rhumb`")
        self.folder = folder
        self.binary = binary
        self._daemons: list[Running] = []
        rib = self._start("rib", "--store", "rib.redb")
        self.router = self._start("router", "--rib", rib)

    def run(self, *words: str) -> dict[str, str]:
        """Runs a command of the binary to its end. What it says."""
        output = subprocess.run(
            [self.binary, "--json", *words],
            cwd=self.folder, env=environment(self.folder), check=True, timeout=PATIENCE_S,
            stdout=subprocess.PIPE,
        ).stdout
        said: dict[str, str] = json.loads(output)
        return said

    def _start(self, role: str, *options: str) -> str:
        self.run("keygen", "--role", role, "--out", f"{role}.key")
        daemon = Running(
            self.binary, "--json", "--with-parent", role, "--key", f"{role}.key",
            "--listen", "127.0.0.1:0", *options, folder=self.folder,
        )
        self._daemons.append(daemon)
        ready = json.loads(daemon.line())
        return f"{ready['name']}@{ready['address']}"

    def end(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.end()


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    with tempfile.TemporaryDirectory() as folder:
        network = Network(folder)
        yield network
        network.end()


@pytest.fixture
def python(network: Network) -> Iterator[Callable[..., Running]]:
    """Starts Python programs: an example by its name, or a text."""
    started = []

    def start(example: Optional[str] = None, *words: str, text: Optional[str] = None) -> Running:
        what = ["-c", text] if text is not None else [str(EXAMPLES / f"{example}.py")]
        running = Running(sys.executable, "-X", "dev", *what, *words, folder=network.folder)
        started.append(running)
        return running

    yield start
    for running in started:
        running.end()


def environment(folder: str) -> dict[str, str]:
    """Nothing of the caller's own settings."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    return {**kept, "HOME": folder, "XDG_RUNTIME_DIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
