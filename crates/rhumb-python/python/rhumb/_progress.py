"""How far a file is, for whoever wants to be told while it moves."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional

from rhumb._native import Progress
from rhumb._waiting import wait_for

OnProgress = Callable[[int, int], object]
"""What is called with how many bytes of a file have arrived, and how many there are."""

# As often as people see a difference.
_PERIOD_S = 0.1


async def with_progress(begin: Callable[..., int], on_progress: Optional[OnProgress]) -> Any:
    """Waits for what `begin` begins, and calls `on_progress` on this loop when there is news."""
    if on_progress is None:
        return await wait_for(begin, None)
    noted = Progress()
    task = asyncio.ensure_future(wait_for(begin, noted))
    told = None
    try:
        while True:
            done, _ = await asyncio.wait((task,), timeout=_PERIOD_S)
            now = noted.now()
            # Of what failed, nothing more is told.
            failed = bool(done) and (task.cancelled() or task.exception() is not None)
            if now is not None and now != told and not failed:
                told = now
                on_progress(*now)
            if done:
                return task.result()
    finally:
        if not task.done():
            task.cancel()
            # It lets go of the file before this returns.
            await asyncio.wait((task,))
