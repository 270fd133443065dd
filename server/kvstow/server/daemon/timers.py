"""Threads that act because time has passed, or because something was left to them.

Decided here: when it sleeps and when it looks again. What it does is the upkeep's business.
"""

import threading
from collections.abc import Callable

from .guard import NEVER


class Timer:
    """Acts when something is due or when woken, on a thread of its own.

    Args:
        clock: the daemon's clock.
        name: of the thread.
    """

    def __init__(self, clock: Callable[[], float], name: str) -> None:
        self._clock = clock
        self._name = name
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], float]) -> None:
        """Begin.

        Args:
            work: does what is due and says when it wants to be called next, in seconds of the clock.
        """
        self._thread = threading.Thread(
            target=self._run, args=(work,), name=self._name, daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Look again now; may be called from any thread."""
        self._wake.set()

    def stop(self, limit_s: float | None = None) -> None:
        """End the thread; returns when it has ended. What is due is not done any more.

        Args:
            limit_s: how long to wait for it, if its work may hang.
        """
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(limit_s)

    def _run(self, work: Callable[[], float]) -> None:
        while True:
            self._wake.clear()  # before looking: what comes up from now on wakes it again
            if self._stopping:
                return
            due = work()
            self._wake.wait(None if due == NEVER else max(due - self._clock(), 0.0))
