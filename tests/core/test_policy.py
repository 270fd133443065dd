"""Eviction policies against plain models: lists that say in the obvious way what the flat links say fast."""

from collections.abc import Collection, Iterator, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvstow.server.core.errors import BooksError
from kvstow.server.core.policy import EvictionPolicy, Lru


class LruModel:
    """The order as one list, coldest first."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def grow(self, slot_limit: int) -> None:
        pass

    def insert(self, slots: Sequence[int]) -> None:
        self.slots += reversed(slots)

    restore = insert

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


class LruHistory(RuleBasedStateMachine):
    """Random histories of a small pool: every slot is free, in the order, or held."""

    def __init__(self) -> None:
        super().__init__()
        self.model = LruModel()
        self.policy: EvictionPolicy = Lru()
        self.free: set[int] = set()
        self.held: set[int] = set()
        self.limit = 0

    def draw_slots(self, data: st.DataObject, among: Collection[int]) -> list[int]:
        """Some of the slots in any order; the empty batch among them."""
        if not among:
            return []
        return data.draw(st.lists(st.sampled_from(sorted(among)), unique=True))

    @initialize(slot_limit=st.integers(1, 8))
    def grow_first(self, slot_limit: int) -> None:
        self.grow(slot_limit)

    @rule(slot_limit=st.integers(1, 8))
    def grow(self, slot_limit: int) -> None:
        self.policy.grow(slot_limit)
        self.model.grow(slot_limit)
        self.free |= set(range(self.limit, slot_limit))
        self.limit = max(self.limit, slot_limit)

    @rule(data=st.data())
    def insert(self, data: st.DataObject) -> None:
        slots = self.draw_slots(data, self.free)
        self.policy.insert(slots)
        self.model.insert(slots)
        self.free -= set(slots)

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
            with pytest.raises(BooksError):
                self.policy.evict(count, protected)
            assert list(self.policy.order()) == before
            return
        victims = self.policy.evict(count, protected)
        assert victims == self.model.evict(count, protected)
        assert victims == [slot for slot in before if slot not in protected][:count]
        self.free |= set(victims)

    @invariant()
    def order_is_the_models(self) -> None:
        order = list(self.policy.order())
        assert order == list(self.model.order())
        assert len(self.policy) == len(order)
        assert self.free.isdisjoint(order)
        assert self.held.isdisjoint(order)

    @invariant()
    def books_are_consistent(self) -> None:
        self.policy.check()


TestLruHistory = LruHistory.TestCase
TestLruHistory.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
