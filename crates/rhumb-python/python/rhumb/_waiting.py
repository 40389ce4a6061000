"""How a coroutine waits for what the native half does: by a courier of its event loop."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Callable

from rhumb import _errors
from rhumb._native import Courier

# A loop's courier goes with it, and does not keep it.
_couriers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Courier] = (
    weakref.WeakKeyDictionary()
)


def _courier_of(loop: asyncio.AbstractEventLoop) -> Courier:
    courier = _couriers.get(loop)
    if courier is None or not courier.is_ours():
        courier = Courier()
        loop.add_reader(courier.fileno(), _deliver, courier)
        _couriers[loop] = courier
    return courier


def _deliver(courier: Courier) -> None:
    for future, value, fault in courier.take():
        if future.done():
            continue
        if fault is None:
            future.set_result(value)
        else:
            name, text = fault
            future.set_exception(getattr(_errors, name)(text))


async def wait_for(begin: Callable[..., int], *arguments: Any) -> Any:
    """Begins something, and returns what it comes to. Cancelled, it ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    courier = _courier_of(loop)
    ticket = begin(courier, future, *arguments)
    try:
        return await future
    finally:
        courier.forget(ticket)
