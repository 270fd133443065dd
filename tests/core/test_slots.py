"""The slots of one size: runs, extents, holds, and what a bug in our own accounts would look like."""

from collections.abc import Callable, Sequence

import pytest

from core.engines import SLOT_BYTES, key
from kvstow.server.core.errors import BooksError
from kvstow.server.core.extents import UNUSED, Extent
from kvstow.server.core.index import BlockIndex
from kvstow.server.core.policy import Lru
from kvstow.server.core.slots import SlotTable

SLOTS_PER_EXTENT = 4


@pytest.fixture
def table() -> SlotTable:
    """Two extents of four slots, the second one of the pool and the fourth."""
    table = SlotTable(SLOT_BYTES, SLOTS_PER_EXTENT, Lru())
    table.add_extent(1)
    table.add_extent(3)
    return table


def fill(table: SlotTable, count: int) -> tuple[BlockIndex, list[int]]:
    """Fill slots with blocks."""
    index = BlockIndex(1, 100)
    slots = table.take(count)
    blocks = {key(slot): slot for slot in slots}
    index.publish(index.begin(blocks), blocks)
    table.settle(blocks, index, now=1.0)
    return index, slots


def counts(table: SlotTable) -> tuple[int, int, int]:
    """Free, busy and evictable slots."""
    return table.free_count, table.busy_count, table.evictable_count


def test_a_slot_says_where_it_lies(table: SlotTable) -> None:
    assert table.slot_count == 8
    assert list(table.locate(table.take(8))) == [4, 5, 6, 7, 12, 13, 14, 15]


def test_slots_are_handed_out_in_ascending_runs(table: SlotTable) -> None:
    first, second, third = table.take(3), table.take(3), table.take(2)
    assert [first, second, third] == [[4, 5, 6], [0, 1, 7], [2, 3]]


def test_slots_that_come_back_are_handed_out_in_order_again(table: SlotTable) -> None:
    table.take(8)
    table.give_back([2, 5, 0, 4, 1])
    assert table.take(5) == [0, 1, 2, 4, 5]


def test_extents_that_have_no_free_slot_share_one_empty_array(table: SlotTable) -> None:
    first, second = table.extents.values()
    taken = table.take(8)
    assert first.free is second.free is first.dirty is second.dirty
    table.give_back(taken[:1])
    assert (first.free_count, second.free_count) == (1, 0)
    assert table.take(1) == taken[:1]
    assert first.free is second.free


def test_the_life_of_a_slot(table: SlotTable) -> None:
    assert counts(table) == (8, 0, 0)
    index, slots = fill(table, 2)
    assert counts(table) == (6, 0, 2)
    table.hold(slots, now=2.0)
    table.hold(slots[:1], now=3.0)
    assert counts(table) == (6, 2, 0)
    table.unhold(slots, now=4.0)
    assert counts(table) == (6, 1, 1)
    assert table.orphan(slots[:1]) == [key(slots[0])]
    assert table.orphan(slots[:1]) == []
    assert index.ready_count == 1
    table.unhold(slots[:1], now=5.0)
    assert counts(table) == (7, 0, 1)


def test_a_slot_that_a_batch_names_twice_is_held_twice(table: SlotTable) -> None:
    _, (slot,) = fill(table, 1)
    table.hold([slot, slot], now=2.0)
    assert table.holds[slot] == 2
    table.unhold([slot, slot], now=3.0)
    assert counts(table) == (7, 0, 1)
    assert list(table.policy.order()) == [slot]


def test_a_held_slot_is_not_touched(table: SlotTable) -> None:
    _, slots = fill(table, 3)
    table.hold(slots[:1], now=2.0)
    table.touch(slots, now=2.5, used=True)
    assert list(table.policy.order()) == [slots[2], slots[1]]


def test_an_extent_remembers_when_it_was_last_used(table: SlotTable) -> None:
    _, slots = fill(table, 1)
    extent = table.extents[1]
    assert extent.used_at == 1.0
    table.hold(slots, now=2.0)
    assert extent.used_at == 2.0
    table.unhold(slots, now=3.0)
    assert extent.used_at == 3.0
    assert table.extents[0].used_at == UNUSED
    table.hold(slots, now=4.0)
    table.orphan(slots)
    table.unhold(slots, now=5.0)
    assert extent.used_at == UNUSED


def test_an_extent_leaves_and_comes_back(table: SlotTable) -> None:
    table.drop_extent(table.extents[0])
    assert counts(table) == (4, 0, 0)
    assert list(table.locate(table.take(4))) == [12, 13, 14, 15]
    table.add_extent(7)
    assert list(table.locate(table.take(2))) == [28, 29]


def test_the_lists_are_as_long_as_the_table_has_had_slots(table: SlotTable) -> None:
    table.add_extent(1_000_000)
    assert len(table.keys) == len(table.owners) == len(table.holds) == 3 * SLOTS_PER_EXTENT
    table.drop_extent(table.extents[2])
    table.add_extent(2_000_000)
    assert len(table.holds) == 3 * SLOTS_PER_EXTENT
    assert list(table.locate(table.take(1))) == [8_000_000]


class WatchedExtents(dict[int, Extent]):
    """Extents by place; counts how many places were looked at."""

    asked = 0

    def __contains__(self, place: object) -> bool:
        self.asked += 1
        return super().__contains__(place)


def test_the_lowest_place_that_was_left_is_found_without_a_look_at_the_others(
    table: SlotTable,
) -> None:
    for number in range(4, 100):
        table.add_extent(number)
    for place in (90, 70, 80):
        table.drop_extent(table.extents[place])
    table.extents = watched = WatchedExtents(table.extents)
    for number in (200, 201, 202, 203):
        table.add_extent(number)
    assert [extent.place for extent in watched.values()][-4:] == [70, 80, 90, 98]
    assert not watched.asked


Mistake = Callable[[SlotTable, Sequence[int]], object]

MISTAKES: dict[str, Mistake] = {
    "take more than is free": lambda table, slots: table.take(7),
    "give back what is stored": lambda table, slots: table.give_back(slots[:1]),
    "give back what is held": lambda table, slots: table.give_back(slots[1:]),
    "end a hold that nobody has": lambda table, slots: table.unhold(slots[:1], now=3.0),
    "drop an extent in use": lambda table, slots: table.drop_extent(table.extents[1]),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_our_own_mistakes_are_found(table: SlotTable, mistake: Mistake) -> None:
    _, slots = fill(table, 2)
    table.hold(slots[1:], now=2.0)
    before = counts(table)
    with pytest.raises(BooksError):
        mistake(table, slots)
    assert counts(table) == before
