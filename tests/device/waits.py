"""Limits of time that are used up by what hangs, and by nothing that a busy machine is only slow with."""

import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from support.driver_model import DriverModel
from support.waiting import wait_for


class Waits:
    """Whoever waits with a limit waits for the end of what does not hang; for what hangs the limit is used up at once.

    The monotonic clock is put on by as much, so that a deadline of several waits passes, too.

    Args:
        monkeypatch: undoes it.
        driver: knows which threads hang.

    Attributes:
        seconds: how long was waited for nothing, by what was asked for and not by a clock.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, driver: DriverModel) -> None:
        self.seconds = 0.0
        self._driver = driver
        self._join, self._result = threading.Thread.join, Future.result
        clock = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: clock() + self.seconds)
        monkeypatch.setattr(
            threading.Thread,
            "join",
            lambda thread, timeout=None: self._wait_thread(thread, timeout),
        )
        monkeypatch.setattr(
            Future, "result", lambda future, timeout=None: self._wait_result(future, timeout)
        )

    def _wait_thread(self, thread: threading.Thread, limit_s: float | None) -> None:
        if limit_s is None:
            self._join(thread)
            return
        wait_for(
            lambda: not thread.is_alive() or thread.ident in self._hanging, f"the end of {thread}"
        )
        if thread.is_alive():
            self.seconds += limit_s

    def _wait_result(self, future: "Future[Any]", limit_s: float | None) -> Any:
        if limit_s is not None:
            wait_for(lambda: future.done() or self._hanging, "a result")
            if not future.done():
                self.seconds += limit_s
                raise TimeoutError
        return self._result(future)

    @property
    def _hanging(self) -> set[int]:
        """Threads that hang, and go on hanging."""
        return self._driver._hung if self._driver._hanging else set()
