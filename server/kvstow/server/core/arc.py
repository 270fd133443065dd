"""Adaptive Replacement Cache: an eviction order that a scan of blocks used only once cannot flush.

After N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", USENIX FAST 2003, figure 4. Blocks
seen once are in T1, blocks used since are in T2; B1 and B2 remember what was evicted from each. A block that comes back
while B1 remembers it says that T1 was too small, one that B2 remembers that T2 was, and the target size p of T1 moves
accordingly.

Where this differs from the paper:
- Only evictable blocks are in T1 and T2. A held block leaves the lists and comes back as used, that is to T2.
- A miss is seen when the block has been stored, after room for it was made. So a victim is taken from T1 while T1 exceeds
  p, without the paper's tie-break for a block that B2 remembers.
- The capacity c is the largest number of blocks that were ever in T1 and T2 together.
- B1 and B2 hold numbers that identify blocks, and are bounded by a constant as well as by c.
- A block that is offered again becomes the most recent one of the list that it is in, and stays there.
- A batch is a prefix. What is remembered of a block holds for all blocks before it, which were used whenever it was.

Within T1 and within T2 tails go before heads. Between the lists p decides: a tail in T1 may outlive its head in T2. The
opposite, a head in T1 that goes before its tail in T2, is what the last rule above is there to prevent. It can still be where
a tail comes back whose head is there and was only ever offered. To take whatever is offered before a used block to be used,
too, would prevent that as well, but one call may name several requests: in a simulation of such calls that lost 1 to 4 % of the
hits, and gained nothing where calls name one request.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice

from .errors import BooksError
from .ghosts import Ghosts
from .slot_lists import SlotLists

GHOST_LIMIT = 1 << 16
"""Evicted blocks that B1 and B2 remember each: a dictionary of this size grows within about 5 ms."""

GONE_LIMIT = 1 << 13
"""Victims that are noted before B1 and B2 take them in: as many as one call may evict. Nobody asks for them before something is
inserted, and the call that evicts is the longest there is, with some milliseconds less to spare than the one that inserts."""

Identify = Callable[[Sequence[int]], Sequence[int]]
"""From slots to numbers that name the blocks in them."""

_OUT, _ONCE, _OFTEN = range(3)
"""Which list a slot is in: none, T1 or T2."""


class Arc:
    """Adaptive Replacement Cache; see the module's text for the source and the differences.

    Args:
        identify: numbers that name the blocks in slots, each the same one whenever that block is stored again. It is asked
            for the slots that are inserted or evicted, so a victim still has to be known to it during `evict`. Two blocks
            of the same number cost nothing but a wrong guess.
        ghost_limit: evicted blocks that each of B1 and B2 remembers at most.
        gone_limit: victims that are noted at most before B1 and B2 take them in.
    """

    def __init__(
        self,
        identify: Identify,
        ghost_limit: int = GHOST_LIMIT,
        gone_limit: int = GONE_LIMIT,
    ) -> None:
        self._identify = identify
        self._ghost_limit = ghost_limit
        self._gone_limit = gone_limit
        self._lists = SlotLists(end_count=2)
        self._places = bytearray()
        self._counts = {_ONCE: 0, _OFTEN: 0}
        self._ghosts = {_ONCE: Ghosts(), _OFTEN: Ghosts()}
        self._gone: deque[tuple[int, Sequence[int]]] = deque()
        self._gone_count = 0
        self._capacity = 0
        self._target = 0.0

    def grow(self, slot_limit: int) -> None:
        self._lists.grow(slot_limit)
        self._places.extend(bytes(max(0, slot_limit - len(self._places))))

    def insert(self, slots: Sequence[int]) -> None:
        self._remember(0)
        once, often = self._ghosts[_ONCE], self._ghosts[_OFTEN]
        identities, known_count = self._identify(slots), 0
        if once.knows_any(identities) or often.knows_any(identities):
            for position, identity in enumerate(identities, start=1):
                if self._adapt(identity):
                    known_count = position
        self._enter(_OFTEN, slots[:known_count])
        self._enter(_ONCE, slots[known_count:])
        self._trim_ghosts()

    def restore(self, slots: Sequence[int]) -> None:
        self._enter(_OFTEN, slots)

    def withdraw(self, slots: Sequence[int]) -> None:
        places, once_count = self._places, 0
        for slot in slots:
            if places[slot] == _ONCE:
                once_count += 1
            places[slot] = _OUT
        self._counts[_ONCE] -= once_count
        self._counts[_OFTEN] -= len(slots) - once_count
        self._lists.unlink(slots)

    def touch(self, slots: Sequence[int]) -> None:
        places, once_count = self._places, 0
        for slot in slots:
            if places[slot] == _ONCE:
                once_count += 1
                places[slot] = _OFTEN
        self._counts[_ONCE] -= once_count
        self._counts[_OFTEN] += once_count
        self._lists.move(-_OFTEN, slots)

    def refresh(self, slots: Sequence[int]) -> None:
        places = self._places
        for place in self._counts:
            self._lists.move(-place, [slot for slot in slots if places[slot] == place])

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        excess, often, rest = self._coldest(protected)
        first = list(islice(excess, count))
        second = list(islice(often, count - len(first)))
        third = list(islice(rest, count - len(first) - len(second)))
        victims = first + second + third
        if len(victims) < count:
            raise BooksError(f"{count} victims wanted, {len(victims)} of {len(self)} can be had")
        self._leave(_ONCE, first + third, protected)
        self._leave(_OFTEN, second, protected)
        self._remember(self._gone_limit)
        return victims

    def __len__(self) -> int:
        return self._counts[_ONCE] + self._counts[_OFTEN]

    def order(self) -> Iterator[int]:
        return chain(*self._coldest(frozenset()))

    def check(self) -> None:
        for place, count in self._counts.items():
            self._lists.check(-place, count)
            if self._places.count(place) != count:
                raise BooksError(f"{count} slots are in list {place}, another number is marked so")
            if any(self._places[slot] != place for slot in self._lists.walk(-place)):
                raise BooksError(f"a slot in list {place} is marked as being elsewhere")
            if len(self._ghosts[place]) > self._ghost_limit:
                raise BooksError(
                    f"{len(self._ghosts[place])} blocks evicted from list {place} are remembered"
                )
        noted = sum(len(identities) for _, identities in self._gone)
        if noted != self._gone_count or noted > self._gone_limit:
            raise BooksError(f"{noted} victims are noted, {self._gone_count} were counted")
        if not 0 <= self._target <= self._capacity or len(self) > self._capacity:
            raise BooksError(f"target {self._target} or size {len(self)} exceeds {self._capacity}")

    def _coldest(self, protected: Collection[int]) -> tuple[Iterator[int], ...]:
        """Slots in the order of eviction, lazily: T1 down to its target, then T2, then the rest of T1."""
        once = self._lists.walk(-_ONCE, protected)
        often = self._lists.walk(-_OFTEN, protected)
        excess = max(0, self._counts[_ONCE] - int(self._target))
        return islice(once, excess), often, once

    def _leave(self, place: int, slots: list[int], protected: Collection[int]) -> None:
        """Victims leave T1 or T2, coldest first, and are noted."""
        if not slots:
            return
        self._gone.append((place, self._identify(slots)))
        self._gone_count += len(slots)
        if protected:
            self._lists.unlink(slots)
        else:
            self._lists.cut(-place, slots)
        self._counts[place] -= len(slots)
        places = self._places
        for slot in slots:
            places[slot] = _OUT

    def _enter(self, place: int, slots: Sequence[int]) -> None:
        places = self._places
        for slot in slots:
            places[slot] = place
        self._lists.push(-place, slots)
        self._counts[place] += len(slots)
        self._capacity = max(self._capacity, len(self))

    def _adapt(self, identity: int) -> bool:
        """Move the target by a block that came back, and forget it: cases II and III of the paper; whether it was known."""
        once, often = self._ghosts[_ONCE], self._ghosts[_OFTEN]
        if once.leave(identity):
            step = max(1.0, len(often) / (len(once) + 1))
            self._target = min(float(self._capacity), self._target + step)
        elif often.leave(identity):
            step = max(1.0, len(once) / (len(often) + 1))
            self._target = max(0.0, self._target - step)
        else:
            return False
        return True

    def _remember(self, limit: int) -> None:
        """B1 and B2 take in what was noted, but for the newest `limit` victims at most."""
        while self._gone and self._gone_count > limit:
            place, identities = self._gone.popleft()
            self._gone_count -= len(identities)
            self._ghosts[place].add(identities)
        self._trim_ghosts()

    def _trim_ghosts(self) -> None:
        """Forget the oldest victims: T1 and B1 together are bounded by the capacity, and so are B1 and B2."""
        once, often = self._ghosts[_ONCE], self._ghosts[_OFTEN]
        once.trim(min(self._ghost_limit, self._capacity - self._counts[_ONCE]))
        often.trim(min(self._ghost_limit, self._capacity - len(once)))
