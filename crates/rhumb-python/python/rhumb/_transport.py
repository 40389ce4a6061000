"""A stream as a transport of asyncio, so that whatever speaks over one speaks over names."""

from __future__ import annotations

import asyncio
from typing import Any, Iterable, Optional, Union, cast

from rhumb import _native
from rhumb._errors import Error
from rhumb._waiting import wait_for

#: What the other end is told when a stream is given up.
CANCELLED = 4
#: What the other end is told when whoever took the stream failed.
SERVICE_FAILED = 5
#: What the other end is told when as many streams are served as can be.
BUSY = 3
#: What is read at once.
_MOST_READ = 64 * 1024
#: Above this many bytes that wait, a protocol is told to pause writing; as asyncio has it.
_HIGH_WATER = 64 * 1024


class StreamTransport(asyncio.Transport):
    """Reads while the protocol takes it, and writes while the other end does."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stream: _native.Stream,
        protocol: asyncio.BaseProtocol,
        lost: Optional[asyncio.Future[None]] = None,
    ) -> None:
        super().__init__(
            {"peername": (stream.peer, stream.port), "sockname": (stream.local, stream.port)}
        )
        self._loop = loop
        self._stream = stream
        self._protocol = protocol
        self._lost = lost
        self._unsent: list[bytes] = []
        self._unsent_len = 0
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._is_protocol_paused = False
        self._is_closing = False
        self._is_ending = False
        self._is_lost = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._has_news = asyncio.Event()
        protocol.connection_made(self)
        self._reader = loop.create_task(self._read())
        self._writer = loop.create_task(self._write())

    # What asyncio asks of all transports.

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Writes what is to be written, says so, and ends once the other end has it all."""
        if not self._is_closing:
            self._is_closing = True
            self._reader.cancel()
            self._has_news.set()

    def abort(self, code: int = CANCELLED) -> None:
        """Ends at once; the other end is told a code."""
        if not self._is_lost:
            self._stream.reset(code)
            self._lose(None)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    # Reading.

    def is_reading(self) -> bool:
        return self._may_read.is_set() and not self._is_closing

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def _read(self) -> None:
        try:
            while True:
                await self._may_read.wait()
                data: bytes = await wait_for(self._stream.read, _MOST_READ)
                if self._is_closing:
                    return
                if not data:
                    break
                # A program may have paused it meanwhile, and gets what is read when it goes on.
                await self._may_read.wait()
                self._hand_over(data)
            if not self._take_end():
                self.close()
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._fail(error)

    def _hand_over(self, data: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            while data:
                # What the protocol gives is any buffer that can be written to.
                view = memoryview(cast(bytearray, protocol.get_buffer(len(data))))
                part, data = data[: len(view)], data[len(view) :]
                view[: len(part)] = part
                protocol.buffer_updated(len(part))
        else:
            cast(asyncio.Protocol, protocol).data_received(data)

    def _take_end(self) -> bool:
        """Whether the protocol goes on writing."""
        protocol = cast(Union[asyncio.Protocol, asyncio.BufferedProtocol], self._protocol)
        return bool(protocol.eof_received())

    # Writing.

    def write(self, data: Union[bytes, bytearray, memoryview[Any]]) -> None:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data is to be bytes, and is {type(data).__name__}")
        if self._is_ending:
            raise RuntimeError("nothing is written after write_eof()")
        # As with other transports, what is written to one that has ended is lost.
        if data and not self._is_closing:
            self._unsent.append(bytes(data))
            self._unsent_len += len(self._unsent[-1])
            self._has_news.set()
            self._tell_protocol()

    def writelines(self, list_of_data: Iterable[Union[bytes, bytearray, memoryview[Any]]]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._is_ending = True
        self._has_news.set()

    def get_write_buffer_size(self) -> int:
        return self._unsent_len

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(
        self, high: Optional[int] = None, low: Optional[int] = None
    ) -> None:
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not 0 <= low <= high:
            raise ValueError(f"high ({high}) has to be at least low ({low}), and that at least 0")
        self._high, self._low = high, low
        self._tell_protocol()

    async def _write(self) -> None:
        try:
            while True:
                while self._unsent:
                    data = b"".join(self._unsent)
                    self._unsent.clear()
                    await wait_for(self._stream.write, data)
                    self._unsent_len -= len(data)
                    self._tell_protocol()
                if self._is_ending or self._is_closing:
                    await wait_for(self._stream.finish)
                    break
                self._has_news.clear()
                await self._has_news.wait()
            while not self._is_closing:
                self._has_news.clear()
                await self._has_news.wait()
            self._lose(None)
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._fail(error)

    def _tell_protocol(self) -> None:
        if self._unsent_len > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self._protocol.pause_writing()
        elif self._unsent_len <= self._low and self._is_protocol_paused:
            self._is_protocol_paused = False
            self._protocol.resume_writing()

    # The end.

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self._lose(None)
            raise error
        if not isinstance(error, Error):
            # A protocol's own: the other end is told that the program failed, and the loop why.
            self._stream.reset(SERVICE_FAILED)
            text = "a protocol failed on a stream of Rhumb"
            context = {"message": text, "exception": error, "protocol": self._protocol}
            self._loop.call_exception_handler({**context, "transport": self})
        self._lose(error)

    def _lose(self, error: Optional[Exception]) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._unsent.clear()
        self._unsent_len = 0
        self._reader.cancel()
        self._writer.cancel()
        self._loop.call_soon(self._let_go, error)

    def _let_go(self, error: Optional[Exception]) -> None:
        # With it goes what the other end still writes.
        del self._stream
        try:
            self._protocol.connection_lost(error)
        finally:
            if self._lost is not None and not self._lost.done():
                self._lost.set_result(None)
