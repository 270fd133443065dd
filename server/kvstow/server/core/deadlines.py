"""When something is due, asked for in one place.

Entries are never taken out early: who asks what is due compares each with the books and ignores what is no longer true.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

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


Due = LeaseDue | TransferDue | GraceDue


@dataclass(slots=True)
class Deadlines:
    """A heap of what falls due."""

    _heap: list[tuple[float, int, Due]] = field(default_factory=list)
    _serial: int = 0

    def add(self, when: float, due: Due) -> None:
        """Ask to be reminded of `due` at `when`."""
        self._serial += 1
        heappush(self._heap, (when, self._serial, due))

    def next(self) -> float | None:
        """When the next entry falls due; None when there is none."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[Due]:
        """Take out everything that fell due, earliest first."""
        while self._heap and self._heap[0][0] <= now:
            yield heappop(self._heap)[2]
