"""When something is due, asked for in one place.

What is no longer true is dropped at once: most transfers and leases end long before their time, and as many as an hour
sees would be more than the garbage collector should have to walk, and each would wake the timer for nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from .types import LeaseId, SessionId, TransferId


@dataclass(frozen=True, slots=True)
class LeaseDue:
    """A lease runs out."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class TransferDue:
    """A transfer passes its deadline."""

    session: SessionId
    transfer: TransferId


@dataclass(frozen=True, slots=True)
class GraceDue:
    """A session without a stream ends."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class SweepDue:
    """Something is to be swept: a reminder for the caller, since sweeping has no time of its own."""


Due = LeaseDue | TransferDue | GraceDue | SweepDue


DEAD_LIMIT = 1 << 10
"""Dropped reminders that the heap keeps, besides as many as there are living ones, before it is made anew."""


@dataclass(slots=True)
class _Reminder:
    """What falls due; None once it was dropped, because a heap gives back only its least entry."""

    due: Due | None


@dataclass(slots=True)
class Deadlines:
    """A heap of what falls due."""

    _heap: list[tuple[float, int, _Reminder]] = field(default_factory=list)
    _living: dict[Due, _Reminder] = field(default_factory=dict)
    _serial: int = 0

    def add(self, when: float, due: Due) -> None:
        """Ask to be reminded of `due` at `when`, and at no other time."""
        self.drop(due)
        self._serial += 1
        self._living[due] = reminder = _Reminder(due)
        heappush(self._heap, (when, self._serial, reminder))

    def drop(self, due: Due) -> None:
        """Ask not to be reminded; nothing changes if nobody would be."""
        reminder = self._living.pop(due, None)
        if reminder is None:
            return
        reminder.due = None
        if len(self._heap) > 2 * len(self._living) + DEAD_LIMIT:
            self._heap = [entry for entry in self._heap if entry[2].due is not None]
            heapify(self._heap)

    def next(self) -> float | None:
        """When the next entry falls due; None when there is none."""
        while self._heap and self._heap[0][2].due is None:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[Due]:
        """Take out everything that fell due, earliest first; what is dropped meanwhile is not among it."""
        while (when := self.next()) is not None and when <= now:
            due = heappop(self._heap)[2].due
            assert due is not None, "the next entry is a living one"
            del self._living[due]
            yield due

    def __len__(self) -> int:
        """Count the entries of the heap, dropped ones included."""
        return len(self._heap)

    def living(self) -> frozenset[Due]:
        """Everything that will fall due."""
        return frozenset(self._living)
