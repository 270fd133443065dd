"""Random histories of each eviction policy, against models that say in the obvious way what flat links say fast."""

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.policy_models import NOTHING, ArcModel, LruModel, Model
from kvstow.server.core.arc import GHOST_LIMIT, GONE_LIMIT, Arc, Identify
from kvstow.server.core.errors import BooksError
from kvstow.server.core.policy import EvictionPolicy, Lru


def names(blocks: dict[int, int]) -> Identify:
    """Which block is in each slot."""
    return lambda slots: [blocks[slot] for slot in slots]


class PolicyHistory(RuleBasedStateMachine):
    """Random histories of a pool of 1 to 8 slots: every slot is free, in the order, or held."""

    policy: EvictionPolicy
    model: Model

    def __init__(self) -> None:
        super().__init__()
        self.blocks: dict[int, int] = {}
        self.free: set[int] = set()
        self.held: set[int] = set()
        self.limit = 0

    def make(self, data: st.DataObject) -> tuple[EvictionPolicy, Model]:
        """The policy under test and its model."""
        raise NotImplementedError

    def draw_slots(self, data: st.DataObject, among: Collection[int]) -> list[int]:
        """Some of the slots in any order, or none."""
        if not among:
            return []
        return data.draw(st.lists(st.sampled_from(sorted(among)), unique=True))

    @initialize(data=st.data(), slot_limit=st.integers(1, 8))
    def begin(self, data: st.DataObject, slot_limit: int) -> None:
        self.policy, self.model = self.make(data)
        self.grow(slot_limit)

    @rule(slot_limit=st.integers(1, 8))
    def grow(self, slot_limit: int) -> None:
        self.policy.grow(slot_limit)
        self.free |= set(range(self.limit, slot_limit))
        self.limit = max(self.limit, slot_limit)

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, self.free)
        for slot in slots:
            elsewhere = {block for other, block in self.blocks.items() if other not in self.free}
            self.blocks[slot] = data.draw(st.sampled_from(sorted(set(range(14)) - elsewhere)))
            self.free.remove(slot)
        self.policy.insert(slots)
        self.model.insert(slots)

    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, list(self.model.order()))
        self.policy.touch(slots)
        self.model.touch(slots)

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, list(self.model.order()))
        self.policy.refresh(slots)
        self.model.refresh(slots)

    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, list(self.model.order()))
        self.policy.withdraw(slots)
        self.model.withdraw(slots)
        self.held |= set(slots)

    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, self.held)
        self.policy.restore(slots)
        self.model.restore(slots)
        self.held -= set(slots)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, list(self.model.order()))
        self.policy.withdraw(slots)
        self.model.withdraw(slots)
        self.free |= set(slots)

    @rule(data=st.data())
    def drop_held(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, self.held)
        self.held -= set(slots)
        self.free |= set(slots)

    @rule(data=st.data(), count=st.integers(0, 9))
    def evict(self, data: st.DataObject, count: int) -> None:
        protected = set(self.draw_slots(data, range(self.limit)))
        before = list(self.policy.order())
        if count > len(set(before) - protected):
            with pytest.raises(BooksError, match="victims wanted"):
                self.policy.evict(count, protected)
            assert list(self.policy.order()) == before
            return
        victims = self.policy.evict(count, protected)
        assert victims == self.model.evict(count, protected)
        assert protected.isdisjoint(victims)
        assert len(victims) == count
        self.free |= set(victims)

    @invariant()
    def order_is_the_models(self) -> None:
        order = list(self.policy.order())
        assert order == list(self.model.order())
        assert len(self.policy) == len(order)
        assert self.free | self.held | set(order) == set(range(self.limit))

    @invariant()
    def books_are_consistent(self) -> None:
        self.policy.check()


class LruHistory(PolicyHistory):
    """Lru against its model."""

    def make(self, data: st.DataObject) -> tuple[EvictionPolicy, Model]:
        return Lru(), LruModel()


class ArcHistory(PolicyHistory):
    """Arc against its model; blocks come back after their eviction, and the ghost lists are long or very short."""

    def make(self, data: st.DataObject) -> tuple[EvictionPolicy, Model]:
        ghost_limit = data.draw(st.sampled_from([0, 1, 2, GHOST_LIMIT]))
        gone_limit = data.draw(st.sampled_from([0, 1, 3, GONE_LIMIT]))
        policy = Arc(names(self.blocks), ghost_limit, gone_limit)
        return policy, ArcModel(self.blocks, ghost_limit)


TestLruHistory = LruHistory.TestCase
TestArcHistory = ArcHistory.TestCase
TestLruHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestArcHistory.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


@settings(max_examples=150, deadline=None)
@given(
    slot_count=st.integers(1, 8),
    ghost_limit=st.sampled_from([0, 1, 2, GHOST_LIMIT]),
    gone_limit=st.sampled_from([0, 1, 3, GONE_LIMIT]),
    uses=st.lists(st.lists(st.integers(0, 11), unique=True, max_size=4), min_size=50, max_size=80),
)
def test_arc_adapts_as_its_model_does(
    slot_count: int, ghost_limit: int, gone_limit: int, uses: list[list[int]]
) -> None:
    """Prefix after prefix is used and, where missing, stored: here blocks often come back after their eviction."""
    blocks: dict[int, int] = {}
    policy, model = Arc(names(blocks), ghost_limit, gone_limit), ArcModel(blocks, ghost_limit)
    policy.grow(slot_count)
    free = list(range(slot_count))
    for use in uses:
        slots = {block: slot for slot, block in blocks.items()}
        present = [slots[block] for block in use if block in slots]
        missing = [block for block in use if block not in slots][:slot_count]
        policy.touch(present)
        model.touch(present)
        victims = policy.evict(max(0, len(missing) - len(free)), NOTHING)
        assert victims == model.evict(len(victims), NOTHING)
        for slot in victims:
            del blocks[slot]
        free += victims
        stored = [free.pop() for _ in missing]
        blocks.update(zip(stored, missing, strict=True))
        policy.insert(stored)
        model.insert(stored)
        assert list(policy.order()) == list(model.order())
    policy.check()
