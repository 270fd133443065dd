"""Which extents of other slot sizes a store may take.

Idle ones: no slot of them is held, taken or being zeroed, and no block in them is named by the same request. Empty ones cost
nothing; of those with blocks one store takes only so many, because each of their blocks is dropped under the lock.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import nsmallest

from .extents import UNUSED, Extent
from .slots import SlotTable

Protected = Mapping[int, Collection[int]]
"""Per slot size, slots that must not be given up: the blocks that the same request names."""

RECLAIM_BLOCKS = 1 << 11
"""Blocks of other sizes that one store drops at most, unless a single extent has more: some milliseconds."""


def reclaimable_count(others: Sequence[SlotTable], protected: Protected) -> int:
    """How many extents a store may take of these tables; no extent is walked."""
    empty = sum(len(other.free.empty) for other in others)
    idle = sum(other.idle_count for other in others)
    for other in others:
        places = _kept_places(other, protected)
        idle -= sum(not other.extents[place].busy_count for place in places)
    return empty + min(idle - empty, _limit(others))


def coldest(
    others: Sequence[SlotTable], protected: Protected, count: int
) -> list[tuple[SlotTable, Extent]]:
    """Up to `count` of these extents, and their tables; those first that were used longest ago, before them the empty ones."""
    found = nsmallest(count, _idle(others, protected), key=lambda each: each[1].used_at)
    empty = sum(extent.used_at == UNUSED for _, extent in found)
    return found[: empty + _limit(others)]


def _limit(others: Sequence[SlotTable]) -> int:
    """Extents with blocks that one store takes."""
    blocks = max((other.slots_per_extent for other in others if other.extents), default=1)
    return max(1, RECLAIM_BLOCKS // blocks)


def _idle(others: Sequence[SlotTable], protected: Protected) -> Iterator[tuple[SlotTable, Extent]]:
    for other in others:
        kept = _kept_places(other, protected)
        # The newest first: of extents used at the same time it has the tail of a prefix, not the head.
        for extent in reversed(other.extents.values()):
            if not extent.busy_count and extent.place not in kept:
                yield other, extent


def _kept_places(table: SlotTable, protected: Protected) -> set[int]:
    return {slot // table.slots_per_extent for slot in protected.get(table.slot_bytes, ())}
