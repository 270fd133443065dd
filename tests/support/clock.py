"""A clock that stands still until it is told to go on."""

from collections.abc import Callable


class ManualClock:
    """Seconds that pass when `advance` says so. Give it to whoever takes a clock.

    Attributes:
        on_advance: called after each step, for those who sleep by it.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self.on_advance: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self.on_advance()
