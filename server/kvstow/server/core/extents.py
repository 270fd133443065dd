"""An extent: a fixed piece of the host pool while it serves one slot size.

A slot is *stained* while it may hold bytes of a tenant whose freed slots are zeroed: from when a store of that tenant takes
it until it was zeroed, or a block of another tenant fills it. A stained slot that is free is *dirty*: it waits to be zeroed,
on a list of its own.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

_NONE = array("q")
"""No slots. All extents that have none share it, so nobody may change it: thousands of empty arrays would take the garbage
collector long to walk."""

UNUSED = float("-inf")
"""Before every moment: an extent without blocks is colder than any other."""


class Extent:
    """One fixed piece of the host pool while it serves one slot size.

    Args:
        stained: it served another slot size, and some of its slots were stained. Which bytes these were is not known any
            more, so all its slots are stained, and its tail is dirty.

    Attributes:
        number: which piece of the pool.
        place: where its slots stand in the table's lists.
        shift: from the number of a slot in the table to where it lies in the pool.
        free: free slots that are not dirty, the lowest number last, so that slots are handed out in ascending runs. An
            array, because the garbage collector would walk lists: there are many after a reset.
        dirty: free slots that are dirty, in the same order.
        stains: by position, whether a slot is stained.
        stained_count: how many slots are stained.
        dirty_tail: what lies behind its last slot waits to be zeroed, or is being zeroed.
        busy_count: slots that are held, taken or being zeroed, and one for a dirty tail: an extent with any of these cannot be
            reclaimed.
        used_at: when a slot of it was last stored or read, in seconds of the caller's clock; UNUSED if all are free.
    """

    __slots__ = (
        "busy_count",
        "dirty",
        "dirty_tail",
        "free",
        "number",
        "place",
        "shift",
        "stained_count",
        "stains",
        "used_at",
    )

    def __init__(self, number: int, place: int, slot_count: int, *, stained: bool = False) -> None:
        first = place * slot_count
        slots = array("q", range(first + slot_count - 1, first - 1, -1))
        self.number = number
        self.place = place
        self.shift = (number - place) * slot_count
        self.free, self.dirty = (_NONE, slots) if stained else (slots, _NONE)
        self.stains = bytearray([stained]) * slot_count
        self.stained_count = slot_count if stained else 0
        self.dirty_tail = stained
        self.busy_count = int(stained)
        self.used_at = UNUSED

    @property
    def slot_count(self) -> int:
        """How many slots it has."""
        return len(self.stains)

    @property
    def free_count(self) -> int:
        """How many of them are free, dirty ones included."""
        return len(self.free) + len(self.dirty)

    def take(self, count: int) -> list[int]:
        """Take out up to `count` free slots, those that came last; dirty ones only when there are no others."""
        chosen = self.free or self.dirty
        found = chosen[-count:].tolist()
        del chosen[-count:]
        self._share_none()
        return found

    def take_dirty(self, count: int) -> list[int]:
        """Take out up to `count` dirty slots, rising."""
        found = sorted(self.dirty[-count:])
        del self.dirty[-count:]
        self._share_none()
        return found

    def push(self, slots: Sequence[int]) -> None:
        """Slots, rising, are free again, or dirty if they are stained."""
        if self.stained_count:
            first = self.place * self.slot_count
            dirty = [slot for slot in reversed(slots) if self.stains[slot - first]]
            self.dirty = self.dirty + array("q", dirty) if dirty else self.dirty
            slots = [slot for slot in slots if not self.stains[slot - first]]
        if slots:
            self.free = self.free or array("q")
            self.free.extend(reversed(slots))

    def stain(self, slots: Sequence[int]) -> None:
        """Slots are stained from now on."""
        self._mark(slots, 1)

    def unstain(self, slots: Sequence[int]) -> None:
        """Slots are not stained any more."""
        if self.stained_count:
            self._mark(slots, 0)

    def _share_none(self) -> None:
        self.free, self.dirty = self.free or _NONE, self.dirty or _NONE

    def _mark(self, slots: Sequence[int], stained: int) -> None:
        first = self.place * self.slot_count
        for slot in slots:
            self.stained_count += stained - self.stains[slot - first]
            self.stains[slot - first] = stained


@dataclass(frozen=True, slots=True)
class Zeroing:
    """What is being zeroed: slots of one size in one extent, and its tail if that is dirty."""

    slot_bytes: int
    extent: Extent
    slots: Sequence[int]


def by_extent(
    extents: Mapping[int, Extent], slots: Sequence[int]
) -> Iterator[tuple[Extent, Sequence[int]]]:
    """Slots of one extent after the other: what is counted for each costs little for each of its slots.

    Args:
        extents: those of one slot size, by place.
        slots: in any order; those of each extent come out rising.
    """
    ordered, start = sorted(slots), 0
    slot_count = next(iter(extents.values())).slot_count if extents else 0
    while start < len(ordered):
        extent = extents[ordered[start] // slot_count]
        end = bisect_left(ordered, (extent.place + 1) * slot_count, start)
        yield extent, ordered[start:end]
        start = end
