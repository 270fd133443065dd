"""Lists of slots without an object per entry: neighbours in flat lists indexed by slot.

Nothing is allocated per call, no dictionary grows under the lock, and the garbage collector has no nodes to walk.
Nothing is decided here: eviction policies keep their orders in these lists, nobody else does, and only under the daemon's
lock. The loops check nothing; a slot linked twice, or unlinked twice, is found by `check`.
"""

from collections.abc import Collection, Iterator, Sequence

from .errors import BooksError


class SlotLists:
    """Doubly linked lists of slots, all over the same two flat lists of neighbours.

    Each list is a ring closed by its end, a negative index. Ends are the last items of the neighbour lists, so they
    keep their index while the lists grow. A slot is in at most one list; the links of a slot in none mean nothing.

    Args:
        end_count: number of lists; their ends are -1, -2, ...
    """

    def __init__(self, end_count: int) -> None:
        self._end_count = end_count
        self._colder = list(range(-end_count, 0))
        self._warmer = list(range(-end_count, 0))

    def grow(self, slot_limit: int) -> None:
        """Make room for slots below `slot_limit`."""
        for links in (self._colder, self._warmer):
            ends = links[-self._end_count :]
            del links[-self._end_count :]
            links.extend([0] * (slot_limit - len(links)))
            links.extend(ends)

    def push(self, end: int, slots: Sequence[int]) -> None:
        """Put slots that are in no list at the warm end of one, the first of them warmest."""
        colder, warmer = self._colder, self._warmer
        warmest = colder[end]
        for slot in reversed(slots):
            warmer[warmest] = slot
            colder[slot] = warmest
            warmest = slot
        warmer[warmest] = end
        colder[end] = warmest

    def move(self, end: int, slots: Sequence[int]) -> None:
        """Put slots that are in a list at the warm end of this one, the first of them warmest."""
        colder, warmer = self._colder, self._warmer
        warmest = colder[end]
        for slot in reversed(slots):
            if slot == warmest:
                continue  # its link to the end is only written below
            before, after = colder[slot], warmer[slot]
            warmer[before] = after
            colder[after] = before
            warmer[warmest] = slot
            colder[slot] = warmest
            warmest = slot
        warmer[warmest] = end
        colder[end] = warmest

    def unlink(self, slots: Sequence[int]) -> None:
        """Take slots out of the lists they are in."""
        colder, warmer = self._colder, self._warmer
        for slot in slots:
            before, after = colder[slot], warmer[slot]
            warmer[before] = after
            colder[after] = before

    def cut(self, end: int, slots: Sequence[int]) -> None:
        """Take slots out of the list that are its coldest, the coldest first."""
        if slots:
            after = self._warmer[slots[-1]]
            self._warmer[end] = after
            self._colder[after] = end

    def walk(self, end: int, protected: Collection[int] = frozenset()) -> Iterator[int]:
        """Yield the slots of one list that are not in `protected`, coldest first."""
        warmer = self._warmer
        slot = warmer[end]
        while slot != end:
            if slot not in protected:
                yield slot
            slot = warmer[slot]

    def check(self, end: int, count: int) -> None:
        """Raise `BooksError` unless every link has its counterpart and the list holds `count` slots."""
        found, slot = 0, self._warmer[end]
        before = end
        while True:
            # Where each step can be retraced the walk is a ring, so it comes back to the end.
            if self._colder[slot] != before:
                raise BooksError(f"slot {slot} follows {before} but links back elsewhere")
            if slot == end:
                break
            found, before, slot = found + 1, slot, self._warmer[slot]
        if found != count:
            raise BooksError(f"{found} slots are linked but {count} were counted")
