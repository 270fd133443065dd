"""What the books say became of keys, against a log that is told of everything at once: before, between and after the steps
in which the keys of abandoned stores are forgotten.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from core.engines import SLOT_BYTES, Engine, identity, key, make_ledger
from kvstow.server.core.books import Limits
from kvstow.server.core.deadlines import SweepDue
from kvstow.server.core.history import Recollection
from kvstow.server.core.types import Fate, TransferPlan, TransferState

KEYS = range(6)
SLOT_COUNT = 4

picks = st.integers(0, 99)


@dataclass(eq=False)
class Copy:
    """A store whose copy has not ended, and the keys that it writes, by position."""

    plan: TransferPlan
    keys: dict[int, int]
    running: bool = False
    abandoned: bool = False


def recall(engine: Engine, numbers: Iterable[int], group: int = 0) -> Recollection:
    """What is known of these keys."""
    keys = [key(number) for number in numbers]
    return engine.ledger.recall(engine.space, group, keys, now=engine.now)


class StoreHistory(RuleBasedStateMachine):
    """Stores of one engine end in every way, in a pool that has room for some of the keys."""

    @initialize(max_tightened=st.sampled_from([0, 1, 100]))
    def begin(self, max_tightened: int) -> None:
        self.ledger = make_ledger(SLOT_COUNT, limits=Limits(max_tightened=max_tightened))
        self.engine = Engine(self.ledger)
        self.copies: list[Copy] = []
        self.log: dict[int, list[tuple[float, Fate, int]]] = defaultdict(list)
        self.swept = True

    def became(self, fate: Fate, numbers: Iterable[int], generation: int = 0) -> None:
        """The same has just become of these keys."""
        for number in numbers:
            event = (self.engine.now, fate, generation or self.engine.generation)
            self.log[number].append(event)

    def there(self, fate: Fate) -> list[int]:
        """The keys that are READY or WRITING."""
        if fate is Fate.WRITING:
            return [n for copy in self.copies if not copy.abandoned for n in copy.keys.values()]
        return [n for n, log in self.log.items() if log and log[-1][1] is Fate.READY]

    def pick(self, pick: int, *, running: bool) -> Copy | None:
        """A store under way, whose copy runs or does not."""
        found = [copy for copy in self.copies if copy.running is running]
        return found[pick % len(found)] if found else None

    def abandon(self, copy: Copy) -> None:
        """Nobody will see the result."""
        copy.abandoned = True
        if not copy.running:
            self.copies.remove(copy)

    @rule(numbers=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=True))
    def offer(self, numbers: list[int]) -> None:
        """Behind the first block that finds no space nothing is looked at: what is there comes before it."""
        ready, writing = self.there(Fate.READY), self.there(Fate.WRITING)
        numbers.sort(key=[*ready, *writing, *KEYS].index)
        plan = self.engine.begin_store(numbers)
        accepted = {at: n for at, n in enumerate(numbers) if plan.statuses[at] == "A"}
        if accepted:
            self.copies.append(Copy(plan, accepted))
        index = self.ledger._books.spaces[self.engine.space].indexes[0]
        slots = index.probe([key(number) for number in ready])
        self.became(Fate.EVICTED, [n for n, at in zip(ready, slots, strict=True) if at is None])
        self.became(Fate.NO_SPACE, [n for at, n in enumerate(numbers) if plan.statuses[at] == "N"])

    @rule(pick=picks)
    def start(self, pick: int) -> None:
        copy = self.pick(pick, running=False)
        if copy is not None:
            assert self.ledger.start(self.engine.session, copy.plan.transfer)
            copy.running = True

    @rule(pick=picks, failed=st.sets(st.integers(0, 3), max_size=2))
    def finish(self, pick: int, failed: set[int]) -> None:
        copy = self.pick(pick, running=True)
        if copy is None:
            return
        self.copies.remove(copy)
        state = self.engine.finish(copy.plan, *failed)
        assert (state is TransferState.ABANDONED) == copy.abandoned
        if not copy.abandoned:
            bad = {at: number for at, number in copy.keys.items() if at in failed}
            self.became(Fate.READY, (number for at, number in copy.keys.items() if at not in bad))
            self.became(Fate.STORE_FAILED, bad.values())

    @rule(pick=picks, running=st.booleans())
    def cancel(self, pick: int, running: bool) -> None:
        copy = self.pick(pick, running=running)
        if copy is None or copy.abandoned:
            return
        self.engine.now += 1
        self.ledger.cancel(self.engine.session, [copy.plan.transfer], now=self.engine.now)
        self.became(Fate.STORE_ABANDONED, copy.keys.values())
        self.abandon(copy)

    @rule()
    def reset(self) -> None:
        ended, ready, writing = (
            self.engine.generation,
            self.there(Fate.READY),
            self.there(Fate.WRITING),
        )
        self.engine.reset()
        self.became(Fate.RESET, ready, ended)
        self.became(Fate.STORE_ABANDONED, writing, ended)
        for copy in list(self.copies):
            self.abandon(copy)
        self.swept = self.swept and not ready  # whoever resets has it swept

    @rule()
    def sweep(self) -> None:
        self.swept = not self.ledger.sweep()

    @invariant()
    def every_fate_is_known(self) -> None:
        self.ledger.check()
        now, generation = self.engine.now, self.engine.generation
        there = {**dict.fromkeys(self.there(Fate.READY), Fate.READY)}
        there |= dict.fromkeys(self.there(Fate.WRITING), Fate.WRITING)
        for number, found in zip(KEYS, recall(self.engine, KEYS).explain(), strict=True):
            at, fate, generation_then = (self.log[number] or [(now, Fate.UNKNOWN, generation)])[-1]
            expected = (fate, now - at, generation_then)
            if number in there:
                expected = (there[number], 0.0, generation)
            assert (found.fate, found.age_s, found.generation) == expected

    @rule(times=st.lists(st.floats(0, 1), min_size=len(KEYS), max_size=len(KEYS)))
    def every_fate_of_an_earlier_time_is_known(self, times: list[float]) -> None:
        asked = {
            key(number): time * self.engine.now for number, time in zip(KEYS, times, strict=True)
        }
        found = recall(self.engine, KEYS).explain_before(asked)
        for number, each in zip(KEYS, found, strict=True):
            log = [event for event in self.log[number] if event[0] <= asked[key(number)]]
            _, fate, generation = log[-1] if log else (0.0, Fate.UNKNOWN, self.engine.generation)
            assert (each.fate, each.generation) == (fate, generation)

    @invariant()
    def what_is_left_is_swept_soon(self) -> None:
        books = self.ledger._books
        if any(table.backlog for table in books.pool.tables.values()):
            assert not self.swept or SweepDue() in books.deadlines.living()


def test_the_fate_of_every_key_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little at a time: each step forgets one key, and few keys stand in one chapter."""
    monkeypatch.setattr("kvstow.server.core.pool.TIGHTEN_LIMIT", 1)
    monkeypatch.setattr("kvstow.server.core.writing.CHAPTER_LIMIT", 2)
    run_state_machine_as_test(
        StoreHistory, settings=settings(max_examples=200, stateful_step_count=40, deadline=None)
    )


def test_an_offer_that_names_no_key_of_a_group_is_remembered_of_the_others() -> None:
    engine = Engine(make_ledger(1), identity(block_bytes=(SLOT_BYTES, SLOT_BYTES)))
    assert engine.begin_store([1, 2], []).statuses == "AN"
    (refused,) = recall(engine, [2]).explain()
    assert refused.fate is Fate.NO_SPACE
    (unknown,) = recall(engine, [2], group=1).explain()
    assert unknown.fate is Fate.UNKNOWN
