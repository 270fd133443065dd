"""The free slots of one size: in which extents they lie, and in which order they are handed out.

What is free is decided by `slots.SlotTable`, which owns this; nobody else changes it.
"""

from collections.abc import Iterator, Sequence
from heapq import heappush

from .errors import BooksError
from .extents import UNUSED, Extent


class FreeSlots:
    """Free lists, extent by extent; those that came last are handed out first.

    Attributes:
        count: slots on all of them.
        dirty_count: how many of them are dirty.
        dirty: extents with dirty slots or a dirty tail, by place, those that have waited longest first.
        empty: extents of which all slots are free, without those with a dirty tail, by place.
        places: those that dropped extents have left, a heap.
    """

    __slots__ = ("_open", "count", "dirty", "dirty_count", "empty", "places")

    def __init__(self) -> None:
        self.count = 0
        self.dirty_count = 0
        self.dirty: dict[int, Extent] = {}
        self.empty: dict[int, Extent] = {}
        self.places: list[int] = []
        self._open: dict[int, Extent] = {}

    def add(self, extent: Extent) -> None:
        """An extent of free slots only is put to work."""
        self._account(extent, extent.free_count, len(extent.dirty))

    def drop(self, extent: Extent) -> None:
        """Forget an extent whose slots are all free; its place is free as well."""
        del self._open[extent.place]
        self.dirty.pop(extent.place, None)
        self.empty.pop(extent.place, None)
        self.count -= extent.free_count
        self.dirty_count -= len(extent.dirty)
        heappush(self.places, extent.place)

    def take(self, count: int) -> Iterator[tuple[Extent, list[int]]]:
        """Hand out free slots, in as few runs as there are; at least `count` must be free."""
        if count > self.count:
            raise BooksError(f"{count} slots taken of {self.count} free ones")
        while count:
            extent = next(reversed(self._open.values()))
            dirty_before = len(extent.dirty)
            found = extent.take(count)
            count -= len(found)
            self._account(extent, -len(found), len(extent.dirty) - dirty_before)
            yield extent, found

    def take_dirty(self, extent: Extent, count: int) -> list[int]:
        """Hand out up to `count` dirty slots of an extent, rising, to be zeroed."""
        found = extent.take_dirty(count)
        del self.dirty[extent.place]  # what is left of it waits behind the others
        self._account(extent, -len(found), -len(found))
        return found

    def push(self, extent: Extent, slots: Sequence[int]) -> None:
        """Slots of one extent, rising, are free again."""
        dirty_before = len(extent.dirty)
        extent.push(slots)
        if extent.free_count == extent.slot_count:
            extent.used_at = UNUSED
        self._account(extent, len(slots), len(extent.dirty) - dirty_before)

    def clean_tail(self, extent: Extent) -> None:
        """What lies behind the last slot of an extent was zeroed."""
        extent.dirty_tail = False
        self._account(extent, 0, 0)

    def _account(self, extent: Extent, more: int, more_dirty: int) -> None:
        """An extent has got `more` free slots, `more_dirty` dirty ones among them; either may be negative."""
        self.count += more
        self.dirty_count += more_dirty
        _list(self._open, extent, extent.free_count > 0)
        _list(self.dirty, extent, len(extent.dirty) > 0 or extent.dirty_tail)
        is_empty = extent.free_count == extent.slot_count and not extent.dirty_tail
        _list(self.empty, extent, is_empty)


def _list(listed: dict[int, Extent], extent: Extent, belongs: bool) -> None:
    if belongs:
        listed[extent.place] = extent
    else:
        listed.pop(extent.place, None)
