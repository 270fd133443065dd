"""Random histories of stores, loads, leases and resets: a store is accepted if and only if there is room, that is, if what
is free and what may be evicted suffices.
"""

from collections import Counter
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from core.engines import Engine, make_ledger, named_policy
from kvstow.server.core.policy import POLICY_NAMES
from kvstow.server.core.types import (
    KeyState,
    LeaseId,
    StoreStatus,
    TransferPlan,
    TransferState,
)

KEYS = range(12)

WHEN_NOT_NEW = {
    KeyState.READY: StoreStatus.ALREADY_STORED,
    KeyState.WRITING: StoreStatus.ALREADY_STORING,
}

prefixes = st.lists(st.sampled_from(KEYS), min_size=1, max_size=9, unique=True)


class StoreHistory(RuleBasedStateMachine):
    """One engine, and what it has put under holds."""

    @initialize(slot_count=st.integers(1, 8), policy=st.sampled_from(POLICY_NAMES))
    def begin(self, slot_count: int, policy: str) -> None:
        self.slot_count, self.policy = slot_count, policy
        self.engine = Engine(make_ledger(slot_count, policy=named_policy(policy)))
        self.stores: list[tuple[TransferPlan, list[int], list[int]]] = []
        self.loads: list[tuple[TransferPlan, list[int]]] = []
        self.leases: list[tuple[LeaseId, list[int]]] = []
        self.strangers = count(100)

    @property
    def free(self) -> int:
        """Slots that nobody uses; before the first store the pool is in no use at all."""
        snapshot = self.engine.ledger.snapshot(now=0)
        (table,) = snapshot.tables
        return self.slot_count if snapshot.unused_extents else table.free

    def states(self) -> dict[int, KeyState]:
        """The state of every key, those that are only stored to see what they displace left out."""
        return dict(zip(KEYS, map(KeyState, self.engine.states(KEYS)), strict=True))

    def evictable(self) -> set[int]:
        """READY keys that nobody holds."""
        holds: Counter[int] = Counter()
        for _, keys in [*self.loads, *self.leases]:
            holds.update(keys)
        states = self.states()
        return {each for each in KEYS if states[each] is KeyState.READY and not holds[each]}

    @rule(offered=prefixes)
    def begin_store(self, offered: list[int]) -> None:
        before, evictable = self.states(), self.evictable()
        room = self.free + len(evictable.difference(offered))
        new = [each for each in offered if before[each] is KeyState.ABSENT]
        expected = [WHEN_NOT_NEW.get(before[each], StoreStatus.ACCEPTED) for each in offered]
        for each in new[room:]:
            expected[offered.index(each)] = StoreStatus.NO_SPACE
        if new and not self.free + len(evictable):  # what lies behind the gap is not looked at
            gap = offered.index(new[0])
            expected[gap:] = [StoreStatus.NO_SPACE] * (len(offered) - gap)

        plan = self.engine.begin_store(offered)
        assert plan.statuses == "".join(status.value for status in expected)
        if plan.copies:
            self.stores.append((plan, new[:room], offered))

    @precondition(lambda self: self.stores)
    @rule(data=st.data(), good=st.booleans())
    def end_store(self, data: st.DataObject, good: bool) -> None:
        plan, keys, offered = self.stores.pop(data.draw(st.integers(0, len(self.stores) - 1)))
        failed = () if good else plan.copies[0].positions
        self.engine.finish(plan, *failed)
        state = KeyState.READY if good else KeyState.ABSENT
        assert {self.states()[each] for each in keys} == {state}
        if good and self.policy == "lru":
            self.newly_stored_is_not_the_next_victim(set(keys), set(offered))

    def newly_stored_is_not_the_next_victim(self, keys: set[int], offered: set[int]) -> None:
        """While there are others than were offered with it: among those the head is warmer than a tail that is new.

        Not so under arc: if all others are in use again and again, the newest block is the one that may go.
        """
        if self.free or not self.evictable() - offered:
            return
        stranger = self.engine.begin_store([next(self.strangers)])
        assert stranger.statuses == StoreStatus.ACCEPTED.value
        assert keys <= self.evictable()
        assert self.engine.finish(stranger, 0) is TransferState.FAILED

    @rule(keys=prefixes)
    def begin_load(self, keys: list[int]) -> None:
        states = self.states()
        if all(states[each] is KeyState.READY for each in keys):
            self.loads.append((self.engine.begin_load(keys), keys))

    @precondition(lambda self: self.loads)
    @rule(data=st.data())
    def end_load(self, data: st.DataObject) -> None:
        plan, _ = self.loads.pop(data.draw(st.integers(0, len(self.loads) - 1)))
        self.engine.finish(plan)

    @rule(keys=prefixes)
    def hold(self, keys: list[int]) -> None:
        result = self.engine.lookup(keys, request=str(next(self.strangers)))
        if result.lease is not None:
            self.leases.append((result.lease, keys[: result.groups[0].hit_count]))

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease, _ = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))
        assert self.engine.release(lease) == 1

    @rule(keys=prefixes)
    def look(self, keys: list[int]) -> None:
        """A lookup that holds nothing makes nothing less evictable."""
        before = self.evictable()
        self.engine.lookup(keys)
        assert self.evictable() == before

    @rule()
    def reset(self) -> None:
        self.engine.reset()
        stores, loads = [plan for plan, _, _ in self.stores], [plan for plan, _ in self.loads]
        for plan in stores + loads:
            assert self.engine.finish(plan) is None
        self.stores, self.loads, self.leases = [], [], []
        assert self.free == self.slot_count


TestStoreHistory = StoreHistory.TestCase
TestStoreHistory.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
