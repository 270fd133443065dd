"""What threads are at, so that a call that never returns is noticed by those that it does not keep.

Each thread writes what it begins and that it is through; anybody may read, without a lock: it is one attribute.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .driver import CudaError


class Beat:
    """What one thread is at.

    Args:
        clock: seconds of a clock that never goes back.
    """

    __slots__ = ("_at", "_clock")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: tuple[str, float] | None = None

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """The thread is at this while the block runs; for that thread alone."""
        self._at = (what, self._clock())
        try:
            yield
        finally:
            self._at = None

    def stuck(self, longest_s: float) -> str:
        """What the thread has been at for longer than that, and for how long; empty if it is not."""
        at = self._at
        if at is None or (seconds := self._clock() - at[1]) <= longest_s:
            return ""
        return f"{at[0]} has not returned for {seconds:.0f} s"


class Pulse:
    """The beats of all threads of one GPU, and whether its context is lost. Any thread may call any method.

    Args:
        longest_s: how long a call may take before the GPU counts as stuck.
        clock: see `Beat`.
    """

    def __init__(self, longest_s: float, clock: Callable[[], float]) -> None:
        self._longest_s = longest_s
        self._clock = clock
        self._beats: list[Beat] = []
        self._lost = ""

    def beat(self) -> Beat:
        """Make a beat that is watched from now on."""
        beat = Beat(self._clock)
        self._beats.append(beat)
        return beat

    def failed(self, error: CudaError) -> None:
        """The driver has refused a call; if it was the last it will take, that is remembered."""
        if error.ends_context and not self._lost:
            self._lost = f"{error}: its context is lost, restart the daemon"

    @property
    def is_lost(self) -> bool:
        """Whether no call will succeed any more."""
        return bool(self._lost)

    def stuck(self) -> str:
        """Which call does not return; empty if all do."""
        found = (beat.stuck(self._longest_s) for beat in tuple(self._beats))
        return next(filter(None, found), "")

    def trouble(self) -> str:
        """What is wrong; empty if nothing is."""
        return self._lost or self.stuck()
