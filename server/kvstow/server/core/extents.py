"""An extent: a fixed piece of the host pool while it serves one slot size."""

from array import array

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
    """

    __slots__ = ("busy_count", "free", "number", "place", "shift", "used_at")

    def __init__(self, number: int, place: int, slot_count: int) -> None:
        first = place * slot_count
        self.number = number
        self.place = place
        self.shift = (number - place) * slot_count
        self.free = array("q", range(first + slot_count - 1, first - 1, -1))
        self.busy_count = 0
        self.used_at = UNUSED
