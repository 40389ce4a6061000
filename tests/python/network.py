"""A RIB and two routers of the real binary on loopback, for tests. Each process ends with the test."""

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from rhumb.errors import Refused
from rhumb.names import Name

PATIENCE_S = 20


def binary():
    """The path of the real binary; a test that has none skips itself."""
    path = os.environ.get("RHUMB_BINARY")
    if not path:
        raise unittest.SkipTest("RHUMB_BINARY does not name the binary")
    return path


class Process:
    """A long-running command, and the objects that it prints."""

    def __init__(self, folder, *command):
        # With its standard input goes the process, even if the test is killed.
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)

    def next_object(self):
        """What it prints next."""
        return json.loads(self.next_line())

    def next_line(self):
        """The same, for what is no object, as errors are."""
        try:
            return self._lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError("it printed nothing in time") from None

    def wait(self):
        """Its exit code, once it has ended by itself."""
        return self._process.wait(PATIENCE_S)

    def end(self):
        """Ends it."""
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Place:
    """A folder, and the processes that run in it."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = self._folder.name
        self._processes = []

    def run(self, *arguments):
        """Runs a command of the binary to its end. What it printed."""
        output = subprocess.run(
            [binary(), "--json", *arguments],
            cwd=self.folder, env=environment(self.folder), check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE,
        ).stdout
        return json.loads(output)

    def keygen(self, role, file):
        """Makes a key and returns its name."""
        return Name.from_text(self.run("keygen", "--role", role, "--out", file)["name"])

    def start(self, *arguments):
        """Starts a command of the binary, which ends with this place at the latest."""
        return self.start_program(binary(), "--json", "--with-parent", *arguments)

    def start_program(self, *command):
        """Starts another program, which ends with its standard input."""
        process = Process(self.folder, *command)
        self._processes.append(process)
        return process

    def serve(self, name, command, *options):
        """Starts a RIB or a router, whose key is there or is made."""
        if not os.path.exists(self.path(f"{name}.key")):
            self.keygen("rib" if command == "rib" else "router", f"{name}.key")
        process = self.start(
            command, "--key", f"{name}.key", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *options
        )
        return Server(process.next_object())

    def path(self, name):
        """A file in the folder that everything runs in."""
        return os.path.join(self.folder, name)

    def end(self):
        """Ends all processes, the latest first."""
        for process in reversed(self._processes):
            process.end()
        self._folder.cleanup()


class Network(Place):
    """``rib``, ``near`` and ``far``: each a name with an address. Python joins the near router, Rust the far one."""

    def __init__(self):
        super().__init__()
        try:
            self.rib = self.serve("rib", "rib", "--store", "store.redb")
            self.near = self.serve("near", "router", "--rib", self.rib.remote)
            self.far = self.serve("far", "router", "--rib", self.rib.remote)
        except BaseException:
            self.end()
            raise


class Server:
    """Who and where a RIB or router is."""

    def __init__(self, ready):
        self.name = Name.from_text(ready["name"])
        self.text = ready["address"]
        # With the name, so that nobody else is taken for it.
        self.remote = f"{self.name}@{self.text}"
        host, _, port = self.text.rpartition(":")
        self.address = (host, int(port))
        self._admin = ready["admin"]

    def status(self):
        """What it tells about itself."""
        with urllib.request.urlopen(f"http://{self._admin}/status", timeout=PATIENCE_S) as answer:
            return json.load(answer)


def eventually(look):
    """What it returns, once it is something and nobody refuses: RIBs hear of each other's names a little later."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(Refused):
            seen = look()
            if seen is not None:
                return seen
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


@contextlib.contextmanager
def polled(node):
    """Lets a node live while the test waits for something else."""
    is_over = threading.Event()

    def poll():
        while not is_over.is_set():
            node.poll(0.05)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(PATIENCE_S)


def environment(folder):
    """Nothing of the caller's own configuration."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "LD_LIBRARY_PATH")}
    return {**kept, "HOME": folder}


def command_environment(folder):
    """The same, for commands of the client."""
    here = os.path.dirname(os.path.abspath(__file__))
    return {**environment(folder), "PYTHONPATH": here, "PYTHONDONTWRITEBYTECODE": "1"}
