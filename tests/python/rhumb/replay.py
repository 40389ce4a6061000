"""The window of numbers that have been seen (section 4.1)."""

WINDOW_LENGTH = 2048


class ReplayWindow:
    """Tells new numbers from seen and from too old ones. Ask before opening, record after it."""

    def __init__(self) -> None:
        self._newest = -1
        # Bit i stands for the number `newest - i`.
        self._seen = 0

    def is_new(self, number: int) -> bool:
        """Whether this number may still be opened."""
        age = self._newest - number
        if age < 0:
            return True
        return age < WINDOW_LENGTH and not self._seen >> age & 1

    def record(self, number: int) -> None:
        """Notes a number whose datagram has opened."""
        age = self._newest - number
        if age < 0:
            self._seen = (self._seen << min(-age, WINDOW_LENGTH)) & ((1 << WINDOW_LENGTH) - 1)
            self._newest = number
            age = 0
        self._seen |= 1 << age
