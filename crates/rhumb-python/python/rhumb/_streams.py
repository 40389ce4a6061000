"""Streams between names: asyncio's own reader and writer, and who is at the other end."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Iterable, Optional, Union

from rhumb import _native
from rhumb._transport import SERVICE_FAILED, StreamTransport

_Bytes = Union[bytes, bytearray, memoryview]


class Stream:
    """Bytes in order between two names, both ways. It reads and writes as asyncio's streams do, and
    `reader` and `writer` are such streams, for whatever wants them. Made by `Node.connect` and by
    `Node.serve`."""

    reader: asyncio.StreamReader
    """What the other end writes."""
    writer: asyncio.StreamWriter
    """What the other end reads."""

    def __init__(self, stream: _native.Stream) -> None:
        loop = asyncio.get_running_loop()
        self._peer, self._local, self._port = stream.peer, stream.local, stream.port
        self.reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(self.reader, loop=loop)
        self._transport = StreamTransport(loop, stream, protocol)
        self.writer = asyncio.StreamWriter(self._transport, protocol, self.reader, loop)

    @property
    def peer(self) -> str:
        """The name at the other end: proven."""
        return self._peer

    @property
    def local(self) -> str:
        """This end's name: the node's own, or one that it serves."""
        return self._local

    @property
    def port(self) -> int:
        """The port that it was opened to."""
        return self._port

    async def read(self, n: int = -1) -> bytes:
        """Up to n bytes, as soon as there are some; without n, all until the end."""
        return await self.reader.read(n)

    async def readexactly(self, n: int) -> bytes:
        """n bytes. Raises `asyncio.IncompleteReadError` if the stream ends before."""
        return await self.reader.readexactly(n)

    async def readline(self) -> bytes:
        """One line with its end; what there is, if the stream ends before."""
        return await self.reader.readline()

    async def readuntil(self, separator: bytes = b"\n") -> bytes:
        """All up to a separator and with it."""
        return await self.reader.readuntil(separator)

    def at_eof(self) -> bool:
        """Whether everything was read that the other end will ever write."""
        return self.reader.at_eof()

    def write(self, data: _Bytes) -> None:
        """Begins to write; `drain` waits until there is room for more."""
        self.writer.write(data)

    def writelines(self, data: Iterable[_Bytes]) -> None:
        """Begins to write all of these."""
        self.writer.writelines(data)

    async def drain(self) -> None:
        """Waits until the other end has taken enough of what was written."""
        await self.writer.drain()

    def write_eof(self) -> None:
        """Says that nothing more will be written; what the other end writes can still be read."""
        self.writer.write_eof()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self.writer.is_closing()

    def close(self) -> None:
        """Writes what is to be written, and ends; `wait_closed` waits for that."""
        self.writer.close()

    async def wait_closed(self) -> None:
        """Waits until the other end has everything, or has let the stream go."""
        await self.writer.wait_closed()

    def abort(self) -> None:
        """Ends at once, and gives up what was not sent."""
        self._transport.abort()

    def fail(self) -> None:
        """As `abort`, and the other end is told that the program behind the port has failed."""
        self._transport.abort(SERVICE_FAILED)

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is not None:
            self.abort()
            return
        self.close()
        await self.wait_closed()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        """The next line."""
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __repr__(self) -> str:
        return f"<rhumb.Stream with {self._peer}, port {self._port}>"
