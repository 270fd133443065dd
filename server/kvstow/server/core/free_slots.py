"""The free slots of one size: in which extents they lie, and in which order they are handed out.

What is free is decided by `slots.SlotTable`, which owns this; nobody else changes it.
"""

from collections.abc import Iterator, Sequence

from .errors import BooksError
from .extents import UNUSED, Extent


class FreeSlots:
    """Free lists, extent by extent; those that came last are handed out first.

    Attributes:
        count: slots on all of them.
    """

    __slots__ = ("_open", "count")

    def __init__(self) -> None:
        self.count = 0
        self._open: dict[int, Extent] = {}

    def add(self, extent: Extent) -> None:
        """An extent of free slots only is put to work."""
        self._open[extent.place] = extent
        self.count += extent.free_count

    def drop(self, extent: Extent) -> None:
        """Forget an extent whose slots are all free."""
        del self._open[extent.place]
        self.count -= extent.free_count

    def take(self, count: int) -> Iterator[tuple[Extent, list[int]]]:
        """Hand out free slots, in as few runs as there are; at least `count` must be free."""
        if count > self.count:
            raise BooksError(f"{count} slots taken of {self.count} free ones")
        self.count -= count
        while count:
            extent = next(reversed(self._open.values()))
            found = extent.pop(count)
            if not extent.free_count:
                del self._open[extent.place]
            count -= len(found)
            yield extent, found

    def push(self, extent: Extent, slots: Sequence[int]) -> None:
        """Slots of one extent, rising, are free again."""
        self._open[extent.place] = extent
        extent.push(slots)
        if extent.free_count == extent.slot_count:
            extent.used_at = UNUSED
        self.count += len(slots)
