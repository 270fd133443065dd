"""A thread that sleeps until something is due ends when it is told to, however that falls together with its waking."""

import threading
import time

from kvstow.server.daemon.guard import NEVER
from kvstow.server.daemon.timers import Timer

LIMIT_S = 60


class StoppedBeforeClear(threading.Event):
    """Is set by somebody who stops the timer, just when the timer is about to clear it for the first time."""

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self._stopper = threading.Thread(target=timer.stop, args=(LIMIT_S,), daemon=True)
        self._told = False

    def clear(self) -> None:
        if not self._told:
            self._told = True
            self._stopper.start()
            assert self.wait(LIMIT_S)
        super().clear()


def test_a_timer_that_is_stopped_before_it_sleeps_does_not_sleep() -> None:
    timer = Timer(time.monotonic, "timer")
    timer._wake = StoppedBeforeClear(timer)
    timer.start(lambda: NEVER)
    assert timer._thread is not None
    timer._thread.join(LIMIT_S)
    assert not timer._thread.is_alive()
