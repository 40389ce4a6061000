"""The native half: what the rest of the package is made of, and no program needs to know.

Methods that wait take a courier and a future of its loop, which is fulfilled with what they come to,
and return a ticket.
"""

import os
from asyncio import Future
from pathlib import Path
from typing import Any, Mapping, Optional, Union, final

_Path = Union[str, os.PathLike[str]]

__all__ = [
    "AdCert",
    "Courier",
    "Identity",
    "Listener",
    "Node",
    "Port",
    "Progress",
    "Service",
    "Stream",
    "__version__",
]

__version__: str

@final
class Courier:
    def __new__(cls) -> Courier: ...
    def fileno(self) -> int: ...
    def is_ours(self) -> bool: ...
    def take(self) -> list[tuple[Future[Any], Any, Optional[tuple[str, str]]]]: ...
    def forget(self, ticket: int) -> None: ...

@final
class Identity:
    """A name and its private key, which it never shows."""

    @staticmethod
    def generate(role: str = "node") -> Identity:
        """A fresh one, of a node or a capsule."""

    @staticmethod
    def load(path: _Path, passphrase: Optional[str] = None) -> Identity:
        """Reads a key file, with the membership that lies beside it. Raises `KeyFileError` when others
        can read the file, too. Opening a sealed one takes a moment: `asyncio.to_thread` has it."""

    def save(self, path: _Path, passphrase: Optional[str] = None) -> None:
        """Writes a new key file, which its owner alone can read, sealed if there is a passphrase."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def role(self) -> str:
        """What the key is for: `node`, `capsule`, `router`, `rib` or `domain`."""

@final
class AdCert:
    """An owner's word that a server answers for its name."""

    @staticmethod
    def sign(owner: Identity, server: str, seconds: int) -> AdCert:
        """Lets `server` answer for the owner from now on, for so many seconds, and nobody else."""

    @staticmethod
    def load(path: _Path) -> AdCert:
        """Reads a file, and verifies that its owner signed it."""

    def save(self, path: _Path) -> None:
        """Writes a new file. There is no secret in it."""

    @property
    def owner(self) -> str:
        """Whose name is served."""

    @property
    def server(self) -> str:
        """Who serves it."""

    @property
    def not_after(self) -> int:
        """Until when, in seconds since 1970."""

@final
class Node:
    @property
    def name(self) -> str: ...
    @staticmethod
    def join(
        courier: Courier,
        future: Future[Node],
        identity: Optional[Identity],
        key: tuple[Optional[_Path], Optional[str]],
        options: Mapping[str, Any],
    ) -> int: ...
    def bind(self, port: int, allow: list[str]) -> Port: ...
    def listen(self, port: int, allow: list[str]) -> Listener: ...
    def open(self, courier: Courier, future: Future[Stream], peer: str, port: int) -> int: ...
    def send(
        self, courier: Courier, future: Future[object], to: str, port: int, body: bytes
    ) -> int: ...
    def ping(self, courier: Courier, future: Future[float], to: str, timeout: float) -> int: ...
    def serve(self, courier: Courier, future: Future[Service], ad_cert: AdCert) -> int: ...
    def send_file(
        self,
        courier: Courier,
        future: Future[int],
        to: str,
        path: _Path,
        progress: Optional[Progress],
    ) -> int: ...
    def receive_file(
        self,
        courier: Courier,
        future: Future[tuple[Path, str, str, int]],
        folder: _Path,
        bounds: tuple[list[str], int],
        progress: Optional[Progress],
    ) -> int: ...
    def status(self, courier: Courier, future: Future[str]) -> int: ...
    def leave(self, courier: Courier, future: Future[bool]) -> int: ...

@final
class Service:
    @property
    def name(self) -> str: ...
    def renew(self, courier: Courier, future: Future[object], ad_cert: AdCert) -> int: ...

@final
class Port:
    @property
    def number(self) -> int: ...
    def ready(self, courier: Courier, future: Future[bool]) -> int: ...
    def take(self) -> Optional[tuple[str, Optional[int], str, bool, bytes]]: ...
    def send(
        self, courier: Courier, future: Future[object], to: str, port: int, body: bytes
    ) -> int: ...
    def reply(
        self,
        courier: Courier,
        future: Future[object],
        who: tuple[str, Optional[int], str],
        body: bytes,
    ) -> int: ...
    def close(self, courier: Courier, future: Future[object]) -> int: ...

@final
class Progress:
    def __new__(cls) -> Progress: ...
    def now(self) -> Optional[tuple[int, int]]: ...

@final
class Listener:
    @property
    def number(self) -> int: ...
    def ready(self, courier: Courier, future: Future[bool]) -> int: ...
    def take(self) -> Optional[Stream]: ...
    def close(self, courier: Courier, future: Future[object]) -> int: ...

@final
class Stream:
    @property
    def peer(self) -> str: ...
    @property
    def local(self) -> str: ...
    @property
    def port(self) -> int: ...
    def read(self, courier: Courier, future: Future[bytes], most: int) -> int: ...
    def write(self, courier: Courier, future: Future[object], bytes: bytes) -> int: ...
    def finish(self, courier: Courier, future: Future[bool]) -> int: ...
    def reset(self, code: int) -> None: ...
