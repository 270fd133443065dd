"""Which block leaves the host pool next: an order of the evictable slots of one slot size.

Decided here: the order, and the victims when room is needed. Not decided here: whether room is needed, who holds what,
and what becomes of a victim; a policy deletes nothing. Only evictable slots are in the order: the caller withdraws a
slot when it is held and restores it afterwards, so that held ones are never walked. Called by the ledger alone, under
the daemon's lock.

What counts as use is that a block was read: a hold, a load, or a lookup that asks for it. That an engine offers a block which is
there already says only that its request lived until now, and most engines offer everything again when a request ends. It keeps
the block warm, but is no use of it.

Every batch of slots is given in prefix order, head first, and, but for `touch` and `refresh`, names a slot at most once. A prefix is
worth nothing without its head, so of one batch the head ends up warmer than the tail: tails are evicted before heads.

Between batches nothing says which block stands on which: keys are opaque. A tail that is stored after its head is warmer until one
call names both. So engines offer all blocks of a request once more when it ends, and if that takes several calls, the last blocks in
the first. A store with new and old blocks refreshes all of them in their order when the new ones are READY.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Protocol

from .arc import Arc, Identify
from .errors import BooksError
from .slot_lists import SlotLists


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
        """Count one use of slots that are in the order and stay there; one named twice counts where it stands first."""

    def refresh(self, slots: Sequence[int]) -> None:
        """As `touch`, but without counting a use: the blocks were offered again."""

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


class Lru:
    """Least recently used first: every use makes a block the warmest."""

    _END = -1

    def __init__(self) -> None:
        self._lists = SlotLists(end_count=1)
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

    def refresh(self, slots: Sequence[int]) -> None:
        self._lists.move(self._END, slots)

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        victims = list(islice(self._lists.walk(self._END, protected), count))
        if len(victims) < count:
            raise BooksError(f"{count} victims wanted, {len(victims)} of {len(self)} can be had")
        if protected:
            self._lists.unlink(victims)
        else:
            self._lists.cut(self._END, victims)
        self._count -= count
        return victims

    def __len__(self) -> int:
        return self._count

    def order(self) -> Iterator[int]:
        return self._lists.walk(self._END)

    def check(self) -> None:
        self._lists.check(self._END, self._count)


_POLICIES: dict[str, Callable[[Identify], EvictionPolicy]] = {
    "lru": lambda identify: Lru(),
    "arc": Arc,
}

POLICY_NAMES = tuple(_POLICIES)


def make_policy(name: str, identify: Identify) -> EvictionPolicy:
    """Make the policy of this name, one of POLICY_NAMES.

    Args:
        name: as in the daemon's configuration.
        identify: numbers that name the blocks in slots; see `Arc`.

    Raises:
        ValueError: no policy has this name.
    """
    if name not in _POLICIES:
        raise ValueError(
            f"no eviction policy is called {name!r}; there are: {', '.join(POLICY_NAMES)}"
        )
    return _POLICIES[name](identify)
