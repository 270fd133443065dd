"""Stops asking a daemon that does not answer, so that its silence costs microseconds, not budgets.

    CLOSED --- `threshold` failures in a row ---> OPEN --- back-off over, next request ---> PROBING
       ^                                            ^                                          |
       |                                            +---------- probe failed, longer ----------+
       +----------------------------------------------------------- probe answered ------------+

While it is not CLOSED no request is sent. A probe is a call of its own that nobody waits for.
Decided here: when to ask. Not decided here: what a probe is. May be used from any thread.
"""

import threading
from collections.abc import Callable
from enum import Enum

THRESHOLD = 3
FIRST_BACK_OFF_S = 0.25
LONGEST_BACK_OFF_S = 2.0


class BreakerState(Enum):
    """Whether requests are sent: only while CLOSED."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Counts failures in a row.

    Args:
        clock: seconds on a clock that only rises.
        threshold: failures in a row after which nothing more is sent.
    """

    def __init__(self, clock: Callable[[], float], threshold: int = THRESHOLD) -> None:
        self._clock = clock
        self._threshold = threshold
        self._lock = threading.Lock()
        self._failures = 0
        self._back_off_s = FIRST_BACK_OFF_S
        self._probe_at = 0.0
        self._state = BreakerState.CLOSED

    @property
    def state(self) -> BreakerState:
        """Where it is in the picture above."""
        return self._state

    def admits(self, probe: Callable[[], None]) -> bool:
        """Whether a request may be sent now.

        Args:
            probe: called, if it is time, to begin a probe, which must end in `succeed` or `fail`.
        """
        if self._state is BreakerState.CLOSED:
            return True
        with self._lock:
            if self._state is not BreakerState.OPEN or self._clock() < self._probe_at:
                return False
            self._state = BreakerState.PROBING
        probe()
        return False

    def succeed(self) -> None:
        """The daemon has answered, whatever it said."""
        if self._state is BreakerState.CLOSED and not self._failures:
            return
        with self._lock:
            self._failures = 0
            self._back_off_s = FIRST_BACK_OFF_S
            self._state = BreakerState.CLOSED

    def fail(self) -> None:
        """The daemon has not answered in time, or cannot be reached."""
        with self._lock:
            self._failures += 1
            if self._state is BreakerState.PROBING:
                self._back_off_s = min(2 * self._back_off_s, LONGEST_BACK_OFF_S)
            elif self._failures < self._threshold or self._state is BreakerState.OPEN:
                return
            self._probe_at = self._clock() + self._back_off_s
            self._state = BreakerState.OPEN
