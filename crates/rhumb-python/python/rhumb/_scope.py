"""What ends with the block of an `async with`."""

from __future__ import annotations

from typing import TypeVar

_ScopedT = TypeVar("_ScopedT", bound="Scoped")


class Scoped:
    """Entered, it is itself; left, whatever happened meanwhile, it is ended."""

    async def _end(self) -> None:
        raise NotImplementedError

    async def __aenter__(self: _ScopedT) -> _ScopedT:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._end()
