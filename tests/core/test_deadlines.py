"""Reminders against a plain dictionary: each comes once, in its time and order, unless it was dropped or moved."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kvstow.server.core.deadlines import DEAD_LIMIT, Deadlines, Due, LeaseDue
from kvstow.server.core.types import LeaseId

dues = st.builds(LeaseDue, st.integers(0, 4).map(LeaseId))
times = st.integers(0, 9).map(float)


class Reminding(RuleBasedStateMachine):
    """Time stands still but in `pop`, so that what is due before it is late and comes all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.deadlines = Deadlines()
        self.model: dict[Due, float] = {}

    @rule(due=dues, when=times)
    def add(self, due: Due, when: float) -> None:
        self.deadlines.add(when, due)
        self.model.pop(due, None)
        self.model[due] = when

    @rule(due=dues)
    def drop(self, due: Due) -> None:
        self.deadlines.drop(due)
        self.model.pop(due, None)

    @rule(now=times)
    def pop(self, now: float) -> None:
        in_order = sorted(self.model, key=self.model.__getitem__)
        expected = [due for due in in_order if self.model[due] <= now]
        assert list(self.deadlines.pop_due(now)) == expected
        for due in expected:
            del self.model[due]

    @invariant()
    def agrees(self) -> None:
        assert self.deadlines.living() == set(self.model)
        assert self.deadlines.next() == min(self.model.values(), default=None)


TestReminding = Reminding.TestCase


def test_what_is_dropped_while_others_are_taken_out_does_not_come() -> None:
    deadlines = Deadlines()
    first, second = LeaseDue(LeaseId(1)), LeaseDue(LeaseId(2))
    deadlines.add(1.0, first)
    deadlines.add(1.0, second)

    taken = deadlines.pop_due(1.0)
    assert next(taken) == first
    deadlines.drop(second)
    assert list(taken) == []


def test_the_heap_forgets_what_was_dropped() -> None:
    deadlines = Deadlines()
    last = LeaseDue(LeaseId(0))
    deadlines.add(1.0, last)
    for number in range(1, 10 * DEAD_LIMIT):
        deadlines.add(2.0, LeaseDue(LeaseId(number)))
        deadlines.drop(LeaseDue(LeaseId(number)))

    assert len(deadlines) <= DEAD_LIMIT + 3
    assert list(deadlines.pop_due(2.0)) == [last]
