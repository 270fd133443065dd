"""Copies that wait for a fence: outside the stream, so that an engine that hangs or dies keeps nobody else's copies.

A stream that waited for the fence would hold back everything behind it for as long as the engine's kernel runs, and for
ever if that engine was killed. So one thread per GPU asks instead, only while something waits: often in the beginning,
then less often, so that a fence is seen late by a small share of the time that it took. A copy that its owner has
abandoned leaves at once, unstarted.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kvstow.server.device.base import Copy, Direction
from kvstow.server.device.streams import refuse

from .beats import Beat
from .driver import CudaError, Driver

SHORTEST_S = 50e-6
LONGEST_S = 1e-3
LATE_SHARE = 0.05
"""A fence that took so long is seen at most this share of that time late, and never later than LONGEST_S."""

ASK_OWNER_S = 0.01
"""How often an owner is asked whether it still wants its copy: that takes the daemon's lock."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CudaFence:
    """An opened event of an engine.

    Args:
        device: UUID of its GPU.
        event: the event here.
    """

    device: str
    event: int


@dataclass(slots=True, eq=False)
class _Waiting:
    """A copy, its fence, since when it waits, and when its owner is asked next."""

    copy: Copy
    event: int
    since: float = field(default_factory=time.monotonic)
    ask_at: float = 0.0

    def is_abandoned(self, now: float) -> bool:
        """Ask the owner, but not too often."""
        if now < self.ask_at:
            return False
        self.ask_at = now + ASK_OWNER_S
        return self.copy.owner.abandoned()


class WaitingRoom:
    """The copies of one GPU that wait. Any thread may call any method.

    Args:
        driver: makes the calls.
        gpu: number of the GPU.
        beat: shows what the thread is at.
        pass_on: takes a copy whose fence was reached, or that nobody wants any more.
        failed: told of every error of the driver.
    """

    def __init__(
        self,
        driver: Driver,
        gpu: int,
        beat: Beat,
        pass_on: Callable[[Copy], None],
        failed: Callable[[CudaError], None],
    ) -> None:
        self._driver = driver
        self._gpu = gpu
        self._beat = beat
        self._pass_on = pass_on
        self._failed = failed
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._looked_at: _Waiting | None = None
        self._open = True
        self._thread = threading.Thread(target=self._run, name=f"gpu-{gpu}-fences", daemon=True)
        self._thread.start()

    def enter(self, copy: Copy, event: int) -> None:
        """Pass a copy on once its fence is reached."""
        with self._changed:
            if self._open:
                self._waiting.append(_Waiting(copy, event))
                self._changed.notify()
                return
        self._pass_on(copy)  # which fails it, as all copies now

    def count(self, direction: Direction) -> int:
        """Copies of one direction that wait."""
        with self._changed:
            return sum(waiting.copy.direction is direction for waiting in self._waiting)

    def give_up(self, reason: str) -> None:
        """Fail what waits, in the calling thread; but for the copy whose event is being asked for just now.

        When a copy has ended its event may be destroyed, and that must not happen under a call that may hang.
        """
        with self._changed:
            copies = [one.copy for one in self._waiting if one is not self._looked_at]
            self._waiting = [one for one in self._waiting if one is self._looked_at]
        for copy in copies:
            refuse(copy, reason)

    def close(self, limit_s: float) -> bool:
        """End the thread; whether that was within `limit_s` seconds. What waits is passed on when all copies fail."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def pass_all_on(self) -> None:
        """After the close: let whoever fails all copies by now fail those that waited too."""
        with self._changed:
            copies = [one.copy for one in self._waiting]
            self._waiting = []
        for copy in copies:
            self._pass_on(copy)

    def _run(self) -> None:
        with self._beat.during("making the GPU current"):
            try:
                self._driver.use(self._gpu)
            except CudaError as error:
                self._failed(error)
        while True:
            with self._changed:
                self._looked_at = None
                while self._open and not self._waiting:
                    self._changed.wait()
                if not self._open:
                    return
                waiting = tuple(self._waiting)
            for one in waiting:
                if self._begin_look(one):
                    self._look(one)
            now = time.monotonic()
            age = min(now - one.since for one in waiting)
            time.sleep(min(max(age * LATE_SHARE, SHORTEST_S), LONGEST_S))

    def _begin_look(self, one: _Waiting) -> bool:
        """Keep a copy here while its event is asked for; False if it has gone."""
        with self._changed:
            self._looked_at = one if one in self._waiting else None
            return self._looked_at is not None

    def _look(self, one: _Waiting) -> None:
        """Let a copy go if its time has come."""
        try:
            with self._beat.during("asking for a fence"):
                reached = self._driver.event_reached(one.event)
        except CudaError as error:
            self._failed(error)
            if self._take(one):
                refuse(one.copy, f"its fence cannot be read: {error}")
            return
        if (reached or one.is_abandoned(time.monotonic())) and self._take(one):
            self._pass_on(one.copy)

    def _take(self, one: _Waiting) -> bool:
        """Take a copy out; False if somebody else has."""
        with self._changed:
            if one not in self._waiting:
                return False
            self._waiting.remove(one)
        return True
