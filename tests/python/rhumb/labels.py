"""Labels (section 6): four bytes in place of both names, between the two ends of a session."""

import secrets
from typing import Dict, Optional, Tuple

from .names import Name

_REPETITION_S = 0.5

# Source and destination.
Flow = Tuple[Name, Name]


class Labels:
    """The labels of one session, in both directions."""

    def __init__(self) -> None:
        # What the router gave us for flows that we send.
        self.received: Dict[Flow, int] = {}
        # What we gave the router for flows that it sends, and what those labels stand for.
        self._given: Dict[Flow, int] = {}
        self._flows: Dict[int, Flow] = {}
        self._last_given_at: Dict[Flow, float] = {}

    def give(self, flow: Flow, now: float) -> Optional[int]:
        """The label to tell, about a PDU that came with its names; nothing if it was told just now."""
        if now - self._last_given_at.get(flow, -_REPETITION_S) < _REPETITION_S:
            return None
        self._last_given_at[flow] = now
        if flow not in self._given:
            label = secrets.randbits(32)
            self._given[flow] = label
            self._flows[label] = flow
        return self._given[flow]

    def flow(self, label: int) -> Optional[Flow]:
        """What a label stands for, if we gave it and have not forgotten."""
        return self._flows.get(label)

    def forget_given(self) -> None:
        """Forgets what was given; whoever uses it is told so."""
        self._given.clear()
        self._flows.clear()
        self._last_given_at.clear()

    def forget_received(self, label: int) -> None:
        """Forgets a label that the router does not know."""
        self.received = {flow: other for flow, other in self.received.items() if other != label}
