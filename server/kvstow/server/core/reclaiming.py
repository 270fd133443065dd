"""Which extents of other slot sizes a store may take.

Idle ones: no slot of them is held, taken or being zeroed, and no block in them is named by the same request. Empty ones cost
nothing; of those with blocks one store takes only so many, because each of their blocks is dropped under the lock. Its groups
share them evenly, so that none takes all: a prefix is of use only if every group has it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from .extents import UNUSED, Extent
from .slots import SlotTable

RECLAIM_BLOCKS = 1 << 11
"""Blocks of other sizes that one store drops at most, unless one extent for each of its groups has more: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a group of a store may have of the pool.

    Args:
        protected: per slot size, slots that must not be given up: the blocks that the same request names.
        group_count: groups that the request names; each gets the same share of what a store may drop of other sizes.
    """

    protected: Mapping[int, Collection[int]]
    group_count: int = 1

    def kept(self, table: SlotTable) -> Collection[int]:
        """Slots of one size that must not be given up."""
        return self.protected.get(table.slot_bytes, ())


def reclaimable_count(others: Sequence[SlotTable], claim: Claim) -> int:
    """How many extents a group may take of these tables; no extent is walked."""
    empty = sum(len(other.free.empty) for other in others)
    idle = sum(other.idle_count for other in others)
    for other in others:
        places = _kept_places(other, claim)
        idle -= sum(not other.extents[place].busy_count for place in places)
    return empty + min(idle - empty, _limit(others, claim))


def coldest(
    others: Sequence[SlotTable], claim: Claim, count: int
) -> list[tuple[SlotTable, Extent]]:
    """Up to `count` of these extents, and their tables; those first that were used longest ago, before them the empty ones."""
    found = nsmallest(count, _idle(others, claim), key=lambda each: each[1].used_at)
    empty = sum(extent.used_at == UNUSED for _, extent in found)
    return found[: empty + _limit(others, claim)]


def _limit(others: Sequence[SlotTable], claim: Claim) -> int:
    """Extents with blocks that one group takes."""
    with_blocks = [other for other in others if other.idle_count > len(other.free.empty)]
    blocks = max((other.slots_per_extent for other in with_blocks), default=1)
    return max(1, RECLAIM_BLOCKS // claim.group_count // blocks)


def _idle(others: Sequence[SlotTable], claim: Claim) -> Iterator[tuple[SlotTable, Extent]]:
    for other in others:
        kept = _kept_places(other, claim)
        # The newest first: of extents used at the same time it has the tail of a prefix, not the head.
        for extent in reversed(other.extents.values()):
            if not extent.busy_count and extent.place not in kept:
                yield other, extent


def _kept_places(table: SlotTable, claim: Claim) -> set[int]:
    return {slot // table.slots_per_extent for slot in claim.kept(table)}
