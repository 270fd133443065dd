"""Random histories of each eviction policy, against models that say in the obvious way what flat links say fast."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvstow.server.core.arc import GHOST_LIMIT, Arc, Identify
from kvstow.server.core.errors import BooksError
from kvstow.server.core.policy import EvictionPolicy, Lru

NOTHING: frozenset[int] = frozenset()


def names(blocks: dict[int, int]) -> Identify:
    """Which block is in each slot."""
    return lambda slots: [blocks[slot] for slot in slots]


class Model(Protocol):
    """What a model offers; it knows nothing of slot numbers, so it does not grow."""

    def insert(self, slots: Sequence[int]) -> None: ...
    def restore(self, slots: Sequence[int]) -> None: ...
    def withdraw(self, slots: Sequence[int]) -> None: ...
    def touch(self, slots: Sequence[int]) -> None: ...
    def evict(self, count: int, protected: Collection[int]) -> list[int]: ...
    def order(self) -> Iterator[int]: ...


class LruModel:
    """The order as one list, coldest first."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def insert(self, slots: Sequence[int]) -> None:
        self.slots += reversed(slots)

    def restore(self, slots: Sequence[int]) -> None:
        self.insert(slots)

    def withdraw(self, slots: Sequence[int]) -> None:
        self.slots = [slot for slot in self.slots if slot not in slots]

    def touch(self, slots: Sequence[int]) -> None:
        self.withdraw(slots)
        self.insert(slots)

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        victims = [slot for slot in self.slots if slot not in protected][:count]
        self.withdraw(victims)
        return victims

    def order(self) -> Iterator[int]:
        return iter(self.slots)


class ArcModel:
    """The published algorithm one block at a time, over plain dicts from a slot or a block to nothing, oldest first.

    Args:
        blocks: the block in each slot.
        ghost_limit: length of b1 and of b2 at most.
    """

    def __init__(self, blocks: dict[int, int], ghost_limit: int) -> None:
        self.blocks = blocks
        self.ghost_limit = ghost_limit
        self.t1: dict[int, None] = {}
        self.t2: dict[int, None] = {}
        self.b1: dict[int, None] = {}
        self.b2: dict[int, None] = {}
        self.c = 0
        self.p = 0.0

    def insert(self, slots: Sequence[int]) -> None:
        was_known = []
        for slot in slots:
            block = self.blocks[slot]
            was_known.append(block in self.b1 or block in self.b2)
            if block in self.b1:
                self.p = min(self.p + max(1, len(self.b2) / len(self.b1)), self.c)
                del self.b1[block]
            elif block in self.b2:
                self.p = max(self.p - max(1, len(self.b1) / len(self.b2)), 0)
                del self.b2[block]
        for position in reversed(range(len(slots))):
            entered = self.t2 if any(was_known[position:]) else self.t1
            entered[slots[position]] = None
        self.count()
        self.shorten()

    def restore(self, slots: Sequence[int]) -> None:
        for slot in reversed(slots):
            self.t2[slot] = None
        self.count()

    def withdraw(self, slots: Sequence[int]) -> None:
        for slot in slots:
            del (self.t1 if slot in self.t1 else self.t2)[slot]

    def touch(self, slots: Sequence[int]) -> None:
        self.withdraw(slots)
        self.restore(slots)

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        return [self.replace(protected) for _ in range(count)]

    def replace(self, protected: Collection[int]) -> int:
        from_t1 = [slot for slot in self.t1 if slot not in protected]
        from_t2 = [slot for slot in self.t2 if slot not in protected]
        if from_t1 and (len(self.t1) > self.p or not from_t2):
            victim, lists, ghosts = from_t1[0], self.t1, self.b1
        else:
            victim, lists, ghosts = from_t2[0], self.t2, self.b2
        del lists[victim]
        ghosts[self.blocks[victim]] = None
        self.shorten()
        return victim

    def order(self) -> Iterator[int]:
        ahead = ArcModel(self.blocks, self.ghost_limit)
        ahead.t1, ahead.t2, ahead.c, ahead.p = dict(self.t1), dict(self.t2), self.c, self.p
        return iter(ahead.evict(len(self.t1) + len(self.t2), NOTHING))

    def count(self) -> None:
        self.c = max(self.c, len(self.t1) + len(self.t2))

    def shorten(self) -> None:
        while len(self.b1) > self.ghost_limit or len(self.t1) + len(self.b1) > self.c:
            del self.b1[next(iter(self.b1))]
        while len(self.b2) > self.ghost_limit or len(self.b1) + len(self.b2) > self.c:
            del self.b2[next(iter(self.b2))]


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
        return Arc(names(self.blocks), ghost_limit), ArcModel(self.blocks, ghost_limit)


TestLruHistory = LruHistory.TestCase
TestArcHistory = ArcHistory.TestCase
TestLruHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestArcHistory.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


@settings(max_examples=150, deadline=None)
@given(
    slot_count=st.integers(1, 8),
    ghost_limit=st.sampled_from([0, 1, 2, GHOST_LIMIT]),
    uses=st.lists(st.lists(st.integers(0, 11), unique=True, max_size=4), min_size=50, max_size=80),
)
def test_arc_adapts_as_its_model_does(
    slot_count: int, ghost_limit: int, uses: list[list[int]]
) -> None:
    """Prefix after prefix is used and, where missing, stored: here blocks often come back after their eviction."""
    blocks: dict[int, int] = {}
    policy, model = Arc(names(blocks), ghost_limit), ArcModel(blocks, ghost_limit)
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
