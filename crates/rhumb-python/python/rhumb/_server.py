"""A port that is served: each stream that is opened to it has a task of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Callable

from rhumb import _native
from rhumb._scope import Scoped
from rhumb._transport import BUSY
from rhumb._waiting import wait_for

#: Streams that are served at once, as `rhumb serve` has it.
DEFAULT_MOST = 400


class Server(Scoped):
    """Serves a port until it is closed, or the node leaves. Made by `Node.serve`."""

    def __init__(
        self, listener: _native.Listener, begin: Callable[[_native.Stream], Any], most: int
    ) -> None:
        self._listener = listener
        self._begin = begin
        self._most = most
        self._served: dict[asyncio.Future[Any], str] = {}
        self._by_peer: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._accepting = self._loop.create_task(self._accept())

    @property
    def port(self) -> int:
        """The port's number."""
        return self._listener.number

    def is_serving(self) -> bool:
        """Whether streams are taken."""
        return not self._accepting.done()

    async def serve_forever(self) -> None:
        """Waits until it is closed, or the node has left. Cancelled, it closes."""
        try:
            await asyncio.shield(self._accepting)
        finally:
            if not self._is_closed:
                await self.close()

    async def close(self) -> None:
        """Takes no more streams, and ends those that are served."""
        self._is_closed = True
        self._accepting.cancel()
        served = list(self._served)
        for task in served:
            task.cancel()
        await asyncio.gather(self._accepting, *served, return_exceptions=True)
        await wait_for(self._listener.close)

    async def _accept(self) -> None:
        while await wait_for(self._listener.ready):
            while (stream := self._listener.take()) is not None:
                if self._has_place_for(stream.peer):
                    self._serve(stream)
                else:
                    stream.reset(BUSY)

    def _has_place_for(self, peer: str) -> bool:
        # Nobody has more than half of what the others leave, so all have some.
        own = self._by_peer[peer]
        others = len(self._served) - own
        return own < max(1, (self._most - others) // 2) and own + others < self._most

    def _serve(self, stream: _native.Stream) -> None:
        peer = stream.peer
        task = asyncio.ensure_future(self._begin(stream))
        self._served[task] = peer
        self._by_peer[peer] += 1
        task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Future[Any]) -> None:
        peer = self._served.pop(task)
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            text = f"what serves port {self.port} failed on a stream of {peer}"
            self._loop.call_exception_handler({"message": text, "exception": error})

    async def _end(self) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<rhumb.Server of port {self.port}>"
