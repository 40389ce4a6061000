"""How a coroutine waits for what the native half does: by a courier of its event loop."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Callable

from rhumb._native import Courier

# A loop's courier goes with it, and does not keep it.
_couriers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Courier] = (
    weakref.WeakKeyDictionary()
)


def _courier_of(loop: asyncio.AbstractEventLoop) -> Courier:
    courier = _couriers.get(loop)
    if courier is None or not courier.is_ours():
        courier = Courier()
        loop.add_reader(courier.fileno(), courier.deliver)
        _couriers[loop] = courier
    return courier


async def wait_for(begin: Callable[..., None], *arguments: Any) -> Any:
    """Begins something, and returns what it comes to. Cancelled, it ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    begin(_courier_of(loop), future, *arguments)
    return await future
