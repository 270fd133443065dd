"""The events of one session that its reader has not acknowledged yet.

Terminal reports are always kept: their number is bounded, because a session with many transfers unfinished or
unacknowledged is refused new ones. Other events share a limited room; when it is used up they are counted, and one
`Resync` takes the place of all that were lost since the reader last looked, so that it knows that it must read the
session's state anew. A reader that looks again and again but never acknowledges anything overflows in the end.
"""

from collections import deque
from collections.abc import Sequence

from .events import Event, Resync, TransferEnded


class Outbox:
    """Numbered events in order; numbers rise by one and start at one.

    Args:
        limit: events kept besides terminal reports; as many `Resync` again.

    Attributes:
        report_count: terminal reports among the waiting events.
        lost_count: events that were lost, ever.
        resync_count: `Resync` events, ever.
        overflowed: even the room for `Resync` is used up; the session cannot be kept.
    """

    __slots__ = (
        "_first",
        "_limit",
        "_resync",
        "_shown",
        "_told_count",
        "_waiting",
        "lost_count",
        "overflowed",
        "report_count",
        "resync_count",
    )

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Event] = deque()
        self._first = 1
        self._shown = 0
        self._resync = 0  # number of the newest Resync
        self._told_count = 0  # losses that the Resyncs before it tell
        self.report_count = 0
        self.lost_count = 0
        self.resync_count = 0
        self.overflowed = False

    @property
    def last(self) -> int:
        """Number of the newest event, zero before the first."""
        return self._first + len(self._waiting) - 1

    @property
    def acknowledged(self) -> int:
        """Number of the newest event that was acknowledged."""
        return self._first - 1

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: Event) -> None:
        """Add an event, or count it as lost when there is no room and it is not a terminal report."""
        if isinstance(event, TransferEnded):
            self.report_count += 1
            self._waiting.append(event)
        elif len(self._waiting) - self.report_count < self._limit:
            self._waiting.append(event)
        else:
            self._lose()

    def acknowledge(self, sequence: int) -> int:
        """Forget events up to `sequence`; returns how many of them were terminal reports."""
        reports = 0
        while self._waiting and self._first <= sequence:
            reports += isinstance(self._waiting.popleft(), TransferEnded)
            self._first += 1
        self.report_count -= reports
        return reports

    def after(self, sequence: int, count: int) -> Sequence[tuple[int, Event]]:
        """Up to `count` events with numbers above `sequence`, oldest first; they count as seen."""
        start = max(sequence + 1, self._first)
        end = min(start + count, self.last + 1)
        self._shown = max(self._shown, end - 1)
        return [(number, self._waiting[number - self._first]) for number in range(start, end)]

    def _lose(self) -> None:
        self.lost_count += 1
        if self._resync > max(self._shown, self.acknowledged):
            self._waiting[self._resync - self._first] = Resync(self.lost_count - self._told_count)
        elif len(self._waiting) - self.report_count < 2 * self._limit:
            self._told_count = self.lost_count - 1
            self._waiting.append(Resync(1))
            self.resync_count += 1
            self._resync = self.last
        else:
            self.overflowed = True
