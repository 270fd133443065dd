"""The host pool over random histories, against a model that finds room by looking at every slot.

What is promised: `room` says exactly what `take` can deliver; nobody loses a block that is held or protected, nor any
block while there are free slots; an extent changes hands if it must, or if it was used longer ago than what would be
evicted; but of those with blocks no more than a group of a store may take.
"""

from itertools import islice
from math import ceil, inf
from typing import Any, Never
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.engines import SLOT_BYTES, key, lru, named_policy
from kvstow.server.core.errors import BlockTooLarge, BooksError
from kvstow.server.core.history import History
from kvstow.server.core.index import BlockIndex
from kvstow.server.core.policy import POLICY_NAMES
from kvstow.server.core.pool import HostPool
from kvstow.server.core.reclaiming import Claim

EXTENT_BYTES = 256
SIZES = (64, 128, 192)
"""Four, two and one of them fit into an extent."""

Slots = set[tuple[int, int]]
"""Slot size and number."""

sizes = st.sampled_from(SIZES)


class PoolHistory(RuleBasedStateMachine):
    """One index per slot size; batches of slots are taken, filled, held and dropped in any order."""

    @initialize(
        extent_count=st.integers(1, 4),
        policy=st.sampled_from(POLICY_NAMES),
        limit=st.sampled_from([1, 4, 8, 100]),
    )
    def begin(self, extent_count: int, policy: str, limit: int) -> None:
        self.reclaim_blocks = patch("kvstow.server.core.reclaiming.RECLAIM_BLOCKS", limit)
        self.limit = limit
        self.reclaim_blocks.start()
        self.pool = HostPool(
            extent_count * EXTENT_BYTES, EXTENT_BYTES, named_policy(policy), History(9)
        )
        self.tables = {size: self.pool.table(size) for size in SIZES}
        self.indexes = {size: self.new_index(size) for size in SIZES}
        self.taken: list[tuple[int, list[int]]] = []
        self.held: list[tuple[int, list[int]]] = []
        self.key_count = 0

    def teardown(self) -> None:
        self.reclaim_blocks.stop()

    def new_index(self, size: int) -> BlockIndex:
        return BlockIndex(1, self.pool.slot_limit(size))

    def ready(self) -> Slots:
        """Slots with a block that a lookup would find."""
        return {
            (size, slot) for size, index in self.indexes.items() for _, slot in index.ready_items()
        }

    def busy(self) -> Slots:
        """Slots that somebody fills or reads."""
        return {(size, slot) for size, slots in [*self.taken, *self.held] for slot in slots}

    def counted_room(self, size: int, kept: Slots) -> tuple[int, int, dict[int, float]]:
        """Slots of one size that can be had for nothing, and by eviction; and the extents that other sizes can give up,
        with the time of their last use."""
        ready, busy = self.ready(), self.busy()
        free = evictable = 0
        unused = self.pool.extent_count
        others = {}
        for other, table in self.tables.items():
            for extent in table.extents.values():
                unused -= 1
                slots = {(other, slot) for slot in table.slots_of(extent)}
                if other == size:
                    free += len(slots - busy - ready)
                    evictable += len(slots & ready - kept)
                elif slots.isdisjoint(kept):
                    others[extent.number] = extent.used_at
        return free + unused * self.tables[size].slots_per_extent, evictable, others

    def next_victim_used_at(self, size: int) -> float:
        """When the extent of the next victim of this size was last used."""
        table, ready = self.tables[size], self.ready()
        victims = (slot for slot in table.policy.order() if (size, slot) in ready)
        return min(
            (table.extents[slot // table.slots_per_extent].used_at for slot in islice(victims, 1)),
            default=inf,
        )

    def full_limit(self, size: int, group_count: int) -> int:
        """How many extents with blocks a group of this size takes from others."""
        others = [table for other, table in self.tables.items() if other != size]
        idle = [table for table in others if table.idle_count > len(table.free.empty)]
        blocks = max((table.slots_per_extent for table in idle), default=1)
        return max(1, self.limit // group_count // blocks)

    def take(self, data: st.DataObject, size: int, wanted: int) -> list[int]:
        """Take slots although some blocks are protected, and see who loses what."""
        table, ready, busy = self.tables[size], self.ready(), self.busy()
        named = data.draw(st.sets(st.sampled_from(sorted(ready)))) if ready else set()
        protected = {other: {slot for at, slot in named if at == other} for other in SIZES}
        free, evictable, others = self.counted_room(size, busy | named)
        victim_used_at = self.next_victim_used_at(size)
        full = sum(used_at > -inf for used_at in others.values())

        claim = Claim(protected, data.draw(st.integers(1, 2)))
        limit = self.full_limit(size, claim.group_count)
        count = self.pool.room(table, wanted, claim)
        extents = len(others) - full + min(full, limit)
        assert count == min(wanted, free + evictable + extents * table.slots_per_extent)
        assert self.ready() == ready
        slots = self.pool.take(table, count, claim, float(self.key_count))
        assert slots == sorted(set(slots))
        assert len(slots) == count
        assert busy.isdisjoint((size, slot) for slot in slots)

        lost = ready - self.ready()
        assert lost.isdisjoint(busy | named)
        mine = {extent.number for extent in table.extents.values()}
        moved = {number: others.pop(number) for number in list(others) if number in mine}
        missing = max(0, count - free - evictable)
        assert len(moved) >= ceil(missing / table.slots_per_extent)
        if not moved:
            assert len(lost) == max(0, count - free)
        assert max(moved.values(), default=-inf) <= min(others.values(), default=inf)
        taken_full = sum(used_at > -inf for used_at in moved.values())
        assert taken_full <= limit
        if any(other == size for other, _ in lost) and taken_full < limit:
            assert min(others.values(), default=inf) >= victim_used_at
        if not missing:
            assert max(moved.values(), default=-inf) < victim_used_at or not moved
        return slots

    def publish(self, size: int, slots: list[int]) -> None:
        """The copies into these slots have ended well."""
        blocks = {key(self.key_count + at): slot for at, slot in enumerate(slots)}
        self.key_count += len(slots)
        index = self.indexes[size]
        index.publish(index.begin(blocks), blocks)
        self.tables[size].settle(blocks, index, now=float(self.key_count))

    @rule(data=st.data(), size=sizes, wanted=st.integers(1, 9))
    def begin_copy(self, data: st.DataObject, size: int, wanted: int) -> None:
        self.taken.append((size, self.take(data, size, wanted)))

    @rule(data=st.data(), size=sizes, wanted=st.integers(1, 9))
    def store(self, data: st.DataObject, size: int, wanted: int) -> None:
        self.publish(size, self.take(data, size, wanted))

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), good=st.booleans())
    def end_copy(self, data: st.DataObject, good: bool) -> None:
        size, slots = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        if good:
            self.publish(size, slots)
        else:
            self.tables[size].give_back(slots)

    @rule(data=st.data(), size=sizes)
    def hold(self, data: st.DataObject, size: int) -> None:
        ready = sorted(slot for other, slot in self.ready() if other == size)
        if ready:
            slots = data.draw(st.lists(st.sampled_from(ready), unique=True))
            self.tables[size].hold(slots, now=float(self.key_count))
            self.held.append((size, slots))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        size, slots = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.tables[size].unhold(slots, now=float(self.key_count))

    @rule(size=sizes)
    def reset(self, size: int) -> None:
        """All blocks of a size are dropped; those that are held are free when their readers have ended."""
        table, index = self.tables[size], self.indexes[size]
        index.retired = True
        if index.ready_count:
            table.backlog.setdefault(index, [])
        self.indexes[size] = self.new_index(size)

    @rule()
    def sweep(self) -> None:
        left = any(table.backlog for table in self.tables.values())
        assert self.pool.sweep() is left

    @invariant()
    def counters_are_right(self) -> None:
        ready, busy = self.ready(), self.busy()
        for size, table in self.tables.items():
            slots = {
                (size, slot)
                for extent in table.extents.values()
                for slot in table.slots_of(extent)
            }
            assert table.busy_count == len(slots & busy)
            assert table.evictable_count == len(slots & ready - busy)
            assert table.free_count + table.retired_count == len(slots - ready - busy)
            table.policy.check()
        used = sum(len(table.extents) for table in self.tables.values())
        assert used + self.pool.unused_count == self.pool.extent_count


TestPoolHistory = PoolHistory.TestCase
TestPoolHistory.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_pool_uses_whole_extents() -> None:
    pool = HostPool(3 * EXTENT_BYTES - 1, EXTENT_BYTES, lru, History(9))
    assert pool.extent_count == pool.unused_count == 2
    assert [pool.slot_limit(size) for size in SIZES] == [8, 4, 2]


def test_a_slot_larger_than_an_extent_is_refused() -> None:
    pool = HostPool(EXTENT_BYTES, EXTENT_BYTES, lru, History(9))
    pool.check_fits(EXTENT_BYTES)
    with pytest.raises(BlockTooLarge) as refused:
        pool.check_fits(EXTENT_BYTES + 1)
    assert refused.value.facts == {"slot_bytes": "257", "extent_bytes": "256"}
    assert not pool.tables


def test_a_victim_without_a_block_is_our_own_mistake() -> None:
    """A slot that is in the order of eviction although nothing is stored in it."""
    pool = HostPool(EXTENT_BYTES, EXTENT_BYTES, lru, History(9))
    table = pool.table(SLOT_BYTES)
    table.policy.insert(pool.take(table, 4, Claim({}), 0.0))
    table.busy_count = 0
    with pytest.raises(BooksError, match="holds no block"):
        pool.take(table, 1, Claim({}), 0.0)


def test_a_slot_without_a_block_has_no_identity() -> None:
    pool = HostPool(EXTENT_BYTES, EXTENT_BYTES, named_policy("arc"), History(9))
    table = pool.table(SLOT_BYTES)
    with pytest.raises(BooksError, match="identity"):
        table.policy.insert(pool.take(table, 1, Claim({}), 0.0))


class UnreadOwners(list[BlockIndex | None]):
    """Owners of slots that nobody may ask for."""

    def __getitem__(self, slot: Any) -> Never:
        raise AssertionError(f"the owner of slot {slot} was read")


def test_an_empty_extent_changes_hands_without_a_look_at_its_slots() -> None:
    pool = HostPool(EXTENT_BYTES, EXTENT_BYTES, lru, History(9))
    small, large = map(pool.table, SIZES[:2])
    small.give_back(pool.take(small, 4, Claim({}), 0.0))
    small.owners = UnreadOwners(small.owners)
    assert pool.take(large, 2, Claim({}), 1.0) == [0, 1]
    assert not small.extents
