"""An extent: a fixed piece of the host pool while it serves one slot size."""

from array import array
from collections.abc import Sequence

UNUSED = float("-inf")
"""Before every moment: an extent without blocks is colder than any other."""


class Extent:
    """One fixed piece of the host pool while it serves one slot size.

    Attributes:
        number: which piece of the pool.
        place: where its slots stand in the table's lists.
        shift: from the number of a slot in the table to where it lies in the pool.
        free: free slots, the lowest number last, so that slots are handed out in ascending runs. An array, because the
            garbage collector would walk lists: there are many after a reset.
        busy_count: slots that are held or taken; such an extent cannot be reclaimed.
        used_at: when a slot of it was last stored or read, in seconds of the caller's clock; UNUSED if all are free.
        uses: when each slot was last used, by position; of a free one it means nothing.
    """

    __slots__ = ("busy_count", "free", "number", "place", "shift", "used_at", "uses")

    def __init__(self, number: int, place: int, slot_count: int) -> None:
        first = place * slot_count
        self.number = number
        self.place = place
        self.shift = (number - place) * slot_count
        self.free = array("q", range(first + slot_count - 1, first - 1, -1))
        self.busy_count = 0
        self.used_at = UNUSED
        self.uses = array("d", bytes(8 * slot_count))

    @property
    def slot_count(self) -> int:
        """How many slots it has."""
        return len(self.uses)

    @property
    def free_count(self) -> int:
        """How many of them are free."""
        return len(self.free)

    def pop(self, count: int) -> list[int]:
        """Take up to `count` free slots out, those with the lowest numbers of the latest run."""
        found = self.free[-count:].tolist()
        del self.free[-count:]
        return found

    def push(self, slots: Sequence[int]) -> None:
        """Slots, rising, are free again."""
        self.free.extend(reversed(slots))

    def use(self, slots: Sequence[int], now: float) -> None:
        """Some of its slots, rising, are used."""
        first = self.place * self.slot_count
        start, end = slots[0] - first, slots[-1] - first + 1
        if end - start == len(slots):
            self.uses[start:end] = array("d", (now,)) * len(slots)
        else:
            for slot in slots:
                self.uses[slot - first] = now
