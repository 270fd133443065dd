"""The ledger against a plain-dict model, with all verbs and all faults in any order.

The model knows nothing of slots, extents, holds or policies. It remembers what was promised: which bytes each stored key
stands for, what a running load must still see when it ends, which report every transfer owes, and to whom.
`ledger.check()` recounts the books after every step.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from core.rare_rules import any_flight, any_session, picks
from core.reset_rules import ResetRules
from core.upkeep_rules import UpkeepRules
from kvstow.server.core.errors import StaleGeneration
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.spaces import SpaceCounters
from kvstow.server.core.types import (
    BlockFailure,
    GroupKeys,
    Hold,
    KeyState,
    SessionEnd,
    TransferKind,
    TransferState,
)
from support.ledger_flights import Reader
from support.ledger_model import (
    BLOCK_COUNT,
    KEYS,
    LARGE,
    SMALL,
    WIDE,
    identity,
)

keys_strategy = st.lists(st.sampled_from(KEYS), min_size=1, max_size=6, unique=True)


class LedgerMachine(UpkeepRules, ResetRules):
    """Models with different slot sizes share a pool of a few extents; the freed slots of some are zeroed."""

    @initialize(
        extents=st.integers(1, 3),
        policy=st.sampled_from(["lru", "arc"]),
        threshold=st.sampled_from([1, 1, 2]),
        max_tightened=st.sampled_from([0, 1, 100]),
        zeroed=st.sampled_from([(), ("small",), ("large", "wide"), ("small", "large", "wide")]),
    )
    def make(
        self,
        extents: int,
        policy: str,
        threshold: int,
        max_tightened: int,
        zeroed: tuple[str, ...],
    ) -> None:
        self._make(extents, policy, threshold, max_tightened, zeroed)
        self.open(SMALL)
        self.open(LARGE)

    @invariant()
    def what_spaces_count_adds_up(self) -> None:
        """Whoever is gone by now: the books count these for all spaces together as well."""
        view, total = self.ledger.snapshot(now=self.now), SpaceCounters()
        for gone in view.counters.accounts.sums.values():
            total += gone
        for space in view.spaces:
            total += space.counters
        assert total.lookups == sum(view.counters.lookup_keys.counts)
        assert total.dropped == view.counters.dropped
        assert total.evicted_blocks == view.evictions.capacity + view.evictions.reclaimed

    # Sessions

    @precondition(lambda self: len(self.readers) < 4)
    @rule(model=st.sampled_from([SMALL, LARGE, WIDE]))
    def open(self, model: tuple[str, int]) -> None:
        session = self.ledger.open_session(identity(*model), model[0], now=self.now)
        self.ledger.attach(session, 0, (BLOCK_COUNT,))
        space, generation = self.ledger.space_of(session)
        self.ledger.open_stream(session)
        assert self.generation.setdefault(space, generation) == generation
        self.readers[session] = Reader(space)

    @precondition(lambda self: len(self.readers) > 2)
    @rule(pick=picks, cause=st.sampled_from(SessionEnd))
    def kill(self, pick: int, cause: SessionEnd) -> None:
        session = self._pick(pick)
        self.ledger.end_session(session, cause, now=self.now)
        self._forget(session)

    @precondition(lambda self: len(self.readers) > 2)
    @rule(pick=picks, seconds=st.sampled_from([1.0, 19.0, 21.0]))
    def lose_stream(self, pick: int, seconds: float) -> None:
        session = self._pick(pick)
        self.ledger.close_stream(session, self.ledger.open_stream(session), now=self.now)
        self.advance(seconds)

    @rule(seconds=st.sampled_from([0.5, 5.0, 40.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds
        while (due := self.ledger.next_deadline()) is not None and due <= self.now:
            for session in self.ledger.expire(now=self.now).sessions:
                self._forget(session)

    # Reading

    @any_session
    @rule(
        pick=picks,
        keys=keys_strategy,
        hold=st.sampled_from(Hold),
        request=st.sampled_from(["r1", "r2"]),
        ttl_s=st.sampled_from([1.0, 30.0]),
        touch=st.booleans(),
    )
    def lookup(
        self,
        pick: int,
        keys: list[bytes],
        hold: Hold,
        request: str,
        ttl_s: float,
        touch: bool,
    ) -> None:
        session = self._pick(pick)
        space = self.readers[session].space
        options = LookupOptions(request, hold, ttl_s, touch, want_states=True)
        result = self.ledger.lookup(
            session, self.generation[space], [GroupKeys(0, keys)], options, now=self.now
        )
        hits = result.groups[0]
        states = ["." if self._stalled(session) else self._state(space, key).value for key in keys]
        assert hits.states == "".join(states)
        leading = next((at for at, state in enumerate(states) if state != "R"), len(states))
        present = next((at for at, state in enumerate(states) if state == "."), len(states))
        assert (hits.hit_count, hits.pending_count) == (leading, present - leading)
        held = 0 if hold is Hold.NONE else leading if hold is Hold.PREFIX else states.count("R")
        assert (result.lease is not None) == bool(held)

    @any_session
    @rule(
        pick=picks, keys=keys_strategy, behind=st.sampled_from([-1, 1]), hold=st.sampled_from(Hold)
    )
    def look_elsewhere(self, pick: int, keys: list[bytes], behind: int, hold: Hold) -> None:
        """What names another generation is refused and changes nothing; a load as well."""
        session = self._pick(pick)
        generation = self.generation[self.readers[session].space] - behind
        before = self.ledger.snapshot(now=self.now)
        options = LookupOptions("r1", hold)
        groups = [GroupKeys(0, keys)]
        with pytest.raises(StaleGeneration):
            self.ledger.lookup(session, generation, groups, options, now=self.now)
        assert self.ledger.snapshot(now=self.now) == before
        assert self._begin(TransferKind.LOAD, session, keys, stale=True) is None

    @any_session
    @rule(pick=picks)
    def release_all(self, pick: int) -> None:
        session = self._pick(pick)
        leases = self._leases(session)
        assert self.ledger.release(session, leases, now=self.now) == len(leases)
        assert self.ledger.release(session, leases, now=self.now) == 0

    # Transfers

    @any_session
    @rule(pick=picks, keys=keys_strategy, stale=st.integers(0, 9).map(lambda number: number == 9))
    def store(self, pick: int, keys: list[bytes], stale: bool) -> None:
        session = self._pick(pick)
        space = self.readers[session].space
        before = [self._state(space, key) for key in keys]
        plan = self._begin(TransferKind.STORE, session, keys, stale=stale)
        if plan is None:
            return
        self._check_statuses(space, keys, before, plan)
        if not plan.copies:
            return
        accepted = {at: keys[at] for at, letter in enumerate(plan.statuses) if letter == "A"}
        self._fly(plan, space, accepted)

    @any_session
    @rule(pick=picks, keys=keys_strategy, likely=st.booleans(), with_lease=st.booleans())
    def load(self, pick: int, keys: list[bytes], likely: bool, with_lease: bool) -> None:
        session = self._pick(pick)
        leases = self._leases(session)
        lease = leases[0] if with_lease and leases else None
        space = self.readers[session].space
        if likely:
            keys = [key for key in keys if (space, key) in self.stored] or keys
        ready = [self._state(space, key) is KeyState.READY for key in keys]
        plan = self._begin(TransferKind.LOAD, session, keys, ready=all(ready), lease=lease)
        if plan is None:
            return
        assert self._leases(session) == [other for other in leases if other != lease]
        flight_id = self._fly(plan, space, dict(enumerate(keys)))
        flight = self.flying[flight_id]
        for position, slot in flight.slots.items():
            flight.expected[slot] = self.stored[space, keys[position]]
        self._check_readable(flight)

    @any_session
    @rule(pick=picks, keys=keys_strategy)
    def store_at_once(self, pick: int, keys: list[bytes]) -> None:
        if self._begun(lambda: self.store(pick, keys, False)):
            self.start(0)
            self.finish(0, set())

    @any_session
    @rule(pick=picks, keys=keys_strategy, changed=st.booleans())
    def store_twice(self, pick: int, keys: list[bytes], changed: bool) -> None:
        if self._begun(lambda: self.store(pick, keys, False)):
            self.repeat(0, changed)

    @any_session
    @rule(pick=picks, keys=keys_strategy, finish=st.booleans(), failed=st.sets(st.integers(0, 2)))
    def load_at_once(self, pick: int, keys: list[bytes], finish: bool, failed: set[int]) -> None:
        if self._begun(lambda: self.load(pick, keys, likely=True, with_lease=True)):
            self.start(0)
            if finish:
                self.finish(0, failed)

    @any_flight
    @rule(pick=picks)
    def start(self, pick: int) -> None:
        flight_id = self._flown(pick)
        flight = self.flying.get(flight_id)
        assert self.ledger.start(*flight_id) == (flight is not None)
        if flight is not None:
            flight.running = True

    @any_flight
    @rule(pick=picks, failed=st.sets(st.integers(0, 5), max_size=2))
    def finish(self, pick: int, failed: set[int]) -> None:
        flight_id = self._flown(pick)
        flight = self.flying.pop(flight_id, None)
        if flight is None:
            assert self.ledger.finish(*flight_id, (), now=self.now) is None
            return
        if flight.plan.kind is TransferKind.LOAD:
            self._check_readable(flight)
        else:
            self._write(flight, failed)
        failures = tuple(
            BlockFailure(position, 0, "test") for position in flight.keys if position in failed
        )
        state = self.ledger.finish(*flight_id, failures, now=self.now)
        self._settle(flight, failures)
        if flight.abandoned:
            assert state is TransferState.ABANDONED
        else:
            assert state is (TransferState.FAILED if failures else TransferState.DONE)
        assert state is not None
        self._report(flight, state, () if flight.abandoned else failures)

    @any_flight
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        flight_id = self._flown(pick)
        session, transfer = flight_id
        if session not in self.readers:
            return
        flight = self.flying.get(flight_id)
        live = flight is not None and not flight.abandoned
        ended, abandoned = self.ledger.cancel(session, [transfer], now=self.now)
        assert ended + abandoned == live
        if flight is not None and live:
            assert bool(abandoned) == flight.running
            self._abandon(flight_id, flight)


LedgerMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
TestLedger = LedgerMachine.TestCase
