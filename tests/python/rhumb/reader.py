"""Strict reading of bytes: every read is checked, and ``end`` refuses what is left over."""

from .errors import Malformed


class Reader:
    """A position in some bytes. All integers are big-endian."""

    def __init__(self, data: bytes, what: str):
        self._data = data
        self._what = what
        self._position = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        end = self._position + count
        if end > len(self._data):
            raise Malformed(f"{self._what}: ends too early")
        taken = self._data[self._position:end]
        self._position = end
        return taken

    def integer(self, size: int) -> int:
        """An unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_size: int) -> bytes:
        """Bytes that are preceded by their length."""
        return self.take(self.integer(length_size))

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(self.left())

    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._position

    def expect(self, expected: bytes, field: str) -> None:
        """Refuses anything but ``expected``."""
        if self.take(len(expected)) != expected:
            raise Malformed(f"{self._what}: {field}")

    def end(self) -> None:
        """Refuses what is left over."""
        if self.left():
            raise Malformed(f"{self._what}: {self.left()} bytes too many")
