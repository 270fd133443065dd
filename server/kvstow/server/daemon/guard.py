"""The one lock, and the ledger behind it.

`with guard as ledger:` is the only way to the books. Whoever leaves the block wakes those whom the change concerns:
readers of sessions that were told something, the timer when something falls due earlier than it thought, and the zeroing
thread when slots wait for it. Whoever leaves it because the books contradict themselves has that reported; nobody else needs
to. All of it happens after the lock is free.

Nothing slow is done inside the block: no I/O, no copy, no logging, no waiting. The lock is not reentrant, and no other
lock may be waited for inside it.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

from kvstow.server.core.errors import BooksError, Refusal
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.types import SessionId

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class LockUse:
    """How the lock was used since the start.

    Args:
        count: times it was taken.
        held_s: seconds it was held in all.
        longest_s: longest time it was held at once.
    """

    count: int
    held_s: float
    longest_s: float


class Guard:
    """The lock.

    Args:
        ledger: what it guards.
        wake_readers: called without the lock with the sessions that were told something.
        wake_timer: called without the lock when something falls due earlier than `armed_until`.
        report_bug: called without the lock with books that contradict themselves.
        wake_zeroing: called without the lock while something waits to be zeroed; None if nothing ever does.

    Attributes:
        armed_until: when the timer looks next by itself; under the lock.
        refusals: how often the books were left with a refusal, by reason; under the lock.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        wake_readers: Callable[[Iterable[SessionId]], None],
        wake_timer: Callable[[], None],
        report_bug: Callable[[str, BaseException], None],
        wake_zeroing: Callable[[], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._wake_readers = wake_readers
        self._wake_timer = wake_timer
        self._report_bug = report_bug
        self._wake_zeroing = wake_zeroing
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._no_waiting = False
        self._entered = 0.0
        self._use = LockUse(0, 0.0, 0.0)
        self.armed_until = NEVER
        self.refusals: Counter[str] = Counter()

    def __enter__(self) -> Ledger:
        self._lock.acquire()
        self._entered = time.perf_counter()
        return self._ledger

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        told = self._ledger.take_told()
        due = self._ledger.next_deadline()
        early = due is not None and due < self.armed_until
        if due is not None and early:
            self.armed_until = due
        dirty = self._wake_zeroing is not None and self._ledger.has_dirt
        if isinstance(error, Refusal):
            self.refusals[error.reason] += 1
        held_s = time.perf_counter() - self._entered
        use = self._use
        self._use = LockUse(use.count + 1, use.held_s + held_s, max(use.longest_s, held_s))
        self._lock.release()
        if isinstance(error, BooksError):
            self._report_bug("the books", error)
        if told:
            self._wake_readers(told)
        if early:
            self._wake_timer()
        if dirty and self._wake_zeroing is not None:
            self._wake_zeroing()

    @property
    def use(self) -> LockUse:
        """How the lock was used; may be read without it."""
        return self._use

    def progress(self) -> None:
        """Something that others may wait for has happened; call it under the lock."""
        self._progress.notify_all()

    def wait_until(self, reached: Callable[[Ledger], bool], timeout_s: float) -> bool:
        """Wait without the lock until `reached`, asked under it at each progress, says True.

        Returns:
            What it said last: False if `timeout_s` seconds, or `stop_waiting`, came first.
        """
        with self._progress:
            self._progress.wait_for(lambda: self._no_waiting or reached(self._ledger), timeout_s)
            return reached(self._ledger)

    def stop_waiting(self) -> None:
        """From now on nobody waits, and who does is woken; call it under the lock."""
        self._no_waiting = True
        self._progress.notify_all()
