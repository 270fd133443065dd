"""The outbox against lists: what was put, what its reader was shown, and that the two agree but for what the reader was told
is lost.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvstow.server.core.events import Event, Resync, SpaceReset, TransferEnded
from kvstow.server.core.outbox import Outbox
from kvstow.server.core.types import TransferId, TransferKind, TransferState


def report(number: int) -> TransferEnded:
    """A terminal report."""
    return TransferEnded(TransferId(number), TransferKind.STORE, TransferState.DONE)


class Reading(RuleBasedStateMachine):
    """A reader that reads, reads again, and acknowledges as it likes.

    `shown` is what it was shown under each number, `acknowledged` the last number it acknowledged.
    """

    @initialize(limit=st.integers(1, 4))
    def begin(self, limit: int) -> None:
        self.outbox = Outbox(limit)
        self.limit = limit
        self.reports: list[Event] = []
        self.others: list[Event] = []
        self.shown: dict[int, Event] = {}
        self.acknowledged = 0

    @rule()
    def put_report(self) -> None:
        self.reports.append(report(len(self.reports)))
        self.outbox.put(self.reports[-1])

    @rule(count=st.integers(1, 4))
    def put_others(self, count: int) -> None:
        """Only a reader that looks again and again and acknowledges nothing overflows."""
        overflowed = self.outbox.overflowed
        for _ in range(count):
            self.others.append(SpaceReset(len(self.others)))
            self.outbox.put(self.others[-1])
        if self.outbox.overflowed and not overflowed:
            assert self.seen_resync_count() >= self.limit

    @rule(after=st.integers(0, 40), count=st.integers(0, 8))
    def read(self, after: int, count: int) -> None:
        """Numbers rise by one, start where asked or at the first that waits, and stand for the same event for ever."""
        after = min(after, self.known())
        found = self.outbox.after(after, count)
        first = max(after, self.acknowledged) + 1
        last = min(first + count - 1, self.outbox.last)
        assert [number for number, _ in found] == list(range(first, last + 1))
        for number, event in found:
            assert self.shown.setdefault(number, event) == event

    @rule()
    def read_all(self) -> None:
        """Every report was shown once and in order; every other event was shown in order, or counted as lost."""
        self.read(self.acknowledged, len(self.outbox))
        shown = [self.shown[number] for number in sorted(self.shown)]
        assert sorted(self.shown) == list(range(1, self.outbox.last + 1))
        assert [event for event in shown if isinstance(event, TransferEnded)] == self.reports
        others = [event for event in shown if isinstance(event, SpaceReset)]
        assert others == [event for event in self.others if event in others]
        assert len(others) + self.outbox.lost_count == len(self.others)
        told = sum(event.lost_count for event in shown if isinstance(event, Resync))
        assert told == self.outbox.lost_count or self.outbox.overflowed
        assert self.outbox.resync_count == sum(isinstance(event, Resync) for event in shown)

    @rule(sequence=st.integers(0, 40))
    def acknowledge(self, sequence: int) -> None:
        sequence = min(sequence, self.known())
        forgotten = range(self.acknowledged + 1, sequence + 1)
        reports = sum(isinstance(self.shown[number], TransferEnded) for number in forgotten)
        assert self.outbox.acknowledge(sequence) == reports
        self.acknowledged = max(self.acknowledged, sequence)

    @invariant()
    def waiting_events_are_bounded(self) -> None:
        assert self.outbox.acknowledged == self.acknowledged
        assert len(self.outbox) == self.outbox.last - self.acknowledged
        assert len(self.outbox) - self.outbox.report_count <= 2 * self.limit
        before = sum(
            isinstance(event, TransferEnded)
            for number, event in self.shown.items()
            if number <= self.acknowledged
        )
        assert self.outbox.report_count == len(self.reports) - before

    def known(self) -> int:
        """Up to which number the reader was shown everything: it asks after and acknowledges no later ones."""
        known = self.acknowledged
        while known + 1 in self.shown:
            known += 1
        return known

    def seen_resync_count(self) -> int:
        """How many times the reader was told of losses without acknowledging it."""
        return sum(
            isinstance(event, Resync)
            for number, event in self.shown.items()
            if number > self.acknowledged
        )


TestReading = Reading.TestCase
TestReading.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_reader_that_never_looks_is_told_once() -> None:
    outbox = Outbox(2)
    for number in range(50):
        outbox.put(report(number))
        outbox.put(SpaceReset(number))
    resyncs = [event for _, event in outbox.after(0, 100) if isinstance(event, Resync)]
    assert resyncs == [Resync(48)]
    assert outbox.resync_count == 1
    assert not outbox.overflowed


def test_a_reader_that_always_looks_and_never_acknowledges_overflows() -> None:
    outbox = Outbox(2)
    for number in range(5):
        assert not outbox.overflowed
        outbox.put(SpaceReset(number))
        outbox.after(0, 100)
    assert outbox.overflowed
    assert [event for _, event in outbox.after(0, 100)] == [
        SpaceReset(0),
        SpaceReset(1),
        Resync(1),
        Resync(1),
    ]
