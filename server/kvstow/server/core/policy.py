"""Which block leaves the host pool next: an order of the evictable slots of one slot size.

Decided here: the order, and the victims when room is needed. Not decided here: whether room is needed, who holds what,
and what becomes of a victim; a policy deletes nothing. Only evictable slots are in the order: the caller withdraws a
slot when it is held and restores it afterwards, so that held ones are never walked. Called by the ledger alone, under
the daemon's lock.

Every batch of slots is given in prefix order, head first, and names a slot at most once. A prefix is worth nothing
without its head, so of one batch the head ends up warmer than the tail: tails are evicted before heads.

Neighbours are kept in flat lists indexed by slot, with no object per entry: nothing is allocated per call, no
dictionary grows under the lock, and the garbage collector has no nodes to walk.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Protocol

from kvstow.server.core.errors import BooksError


class EvictionPolicy(Protocol):
    """An order of evictable slots, from the coldest, which is evicted first, to the warmest."""

    def grow(self, slot_limit: int) -> None:
        """Take slot numbers below `slot_limit` from now on; a limit already reached changes nothing."""

    def insert(self, slots: Sequence[int]) -> None:
        """Enter newly stored blocks as the warmest."""

    def restore(self, slots: Sequence[int]) -> None:
        """Enter slots again that were held; the hold counts as one use."""

    def withdraw(self, slots: Sequence[int]) -> None:
        """Take slots out that are now held, or whose blocks were dropped; all of them must be in the order."""

    def touch(self, slots: Sequence[int]) -> None:
        """Count one use of slots that are in the order and stay there."""

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        """Take the `count` coldest slots that are not in `protected` (a set) out of the order.

        Returns:
            The victims, coldest first.

        Raises:
            BooksError: fewer slots than `count` can be evicted; nothing changed.
        """

    def __len__(self) -> int:
        """Count the slots in the order."""

    def order(self) -> Iterator[int]:
        """Walk the slots in the order in which they would be evicted now."""

    def check(self) -> None:
        """Raise `BooksError` when links and counts disagree; walks everything."""


class _SlotLists:
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


class Lru:
    """Least recently used first: every use makes a block the warmest."""

    _END = -1

    def __init__(self) -> None:
        self._lists = _SlotLists(end_count=1)
        self._count = 0

    def grow(self, slot_limit: int) -> None:
        self._lists.grow(slot_limit)

    def insert(self, slots: Sequence[int]) -> None:
        self._lists.push(self._END, slots)
        self._count += len(slots)

    def restore(self, slots: Sequence[int]) -> None:
        self.insert(slots)

    def withdraw(self, slots: Sequence[int]) -> None:
        self._lists.unlink(slots)
        self._count -= len(slots)

    def touch(self, slots: Sequence[int]) -> None:
        self._lists.move(self._END, slots)

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        victims = list(islice(self._lists.walk(self._END, protected), count))
        if len(victims) < count:
            raise BooksError(f"{count} victims wanted, {len(victims)} of {len(self)} can be had")
        self.withdraw(victims)
        return victims

    def __len__(self) -> int:
        return self._count

    def order(self) -> Iterator[int]:
        return self._lists.walk(self._END)

    def check(self) -> None:
        self._lists.check(self._END, self._count)
