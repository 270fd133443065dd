"""What the eviction policies do, in the obvious way: models that know nothing of links, batches or marks."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

NOTHING: frozenset[int] = frozenset()


class Model(Protocol):
    """What a model offers; it knows nothing of slot numbers, so it does not grow."""

    def insert(self, slots: Sequence[int]) -> None: ...
    def restore(self, slots: Sequence[int]) -> None: ...
    def withdraw(self, slots: Sequence[int]) -> None: ...
    def touch(self, slots: Sequence[int]) -> None: ...
    def refresh(self, slots: Sequence[int]) -> None: ...
    def evict(self, count: int, protected: Collection[int]) -> list[int]: ...
    def order(self) -> Iterator[int]: ...


class LruModel:
    """The order as one list, coldest first."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def insert(self, slots: Sequence[int]) -> None:
        self.slots += reversed(slots)

    def restore(self, slots: Sequence[int]) -> None:
        self.insert(slots)

    def withdraw(self, slots: Sequence[int]) -> None:
        self.slots = [slot for slot in self.slots if slot not in slots]

    def touch(self, slots: Sequence[int]) -> None:
        self.withdraw(slots)
        self.insert(slots)

    def refresh(self, slots: Sequence[int]) -> None:
        self.touch(slots)

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        victims = [slot for slot in self.slots if slot not in protected][:count]
        self.withdraw(victims)
        return victims

    def order(self) -> Iterator[int]:
        return iter(self.slots)


class ArcModel:
    """The published algorithm one block at a time, over plain dicts from a slot or a block to nothing, oldest first.

    Args:
        blocks: the block in each slot.
        ghost_limit: length of b1 and of b2 at most.
    """

    def __init__(self, blocks: dict[int, int], ghost_limit: int) -> None:
        self.blocks = blocks
        self.ghost_limit = ghost_limit
        self.t1: dict[int, None] = {}
        self.t2: dict[int, None] = {}
        self.b1: dict[int, None] = {}
        self.b2: dict[int, None] = {}
        self.c = 0
        self.p = 0.0

    def insert(self, slots: Sequence[int]) -> None:
        was_known = []
        for slot in slots:
            block = self.blocks[slot]
            was_known.append(block in self.b1 or block in self.b2)
            if block in self.b1:
                self.p = min(self.p + max(1, len(self.b2) / len(self.b1)), self.c)
                del self.b1[block]
            elif block in self.b2:
                self.p = max(self.p - max(1, len(self.b1) / len(self.b2)), 0)
                del self.b2[block]
        for position in reversed(range(len(slots))):
            entered = self.t2 if any(was_known[position:]) else self.t1
            entered[slots[position]] = None
        self.count()
        self.shorten()

    def restore(self, slots: Sequence[int]) -> None:
        for slot in reversed(slots):
            self.t2[slot] = None
        self.count()

    def withdraw(self, slots: Sequence[int]) -> None:
        for slot in slots:
            del (self.t1 if slot in self.t1 else self.t2)[slot]

    def touch(self, slots: Sequence[int]) -> None:
        self.withdraw(slots)
        self.restore(slots)

    def refresh(self, slots: Sequence[int]) -> None:
        for slot in reversed(slots):
            found = self.t1 if slot in self.t1 else self.t2
            del found[slot]
            found[slot] = None

    def evict(self, count: int, protected: Collection[int]) -> list[int]:
        return [self.replace(protected) for _ in range(count)]

    def replace(self, protected: Collection[int]) -> int:
        from_t1 = [slot for slot in self.t1 if slot not in protected]
        from_t2 = [slot for slot in self.t2 if slot not in protected]
        if from_t1 and (len(self.t1) > self.p or not from_t2):
            victim, lists, ghosts = from_t1[0], self.t1, self.b1
        else:
            victim, lists, ghosts = from_t2[0], self.t2, self.b2
        del lists[victim]
        ghosts[self.blocks[victim]] = None
        self.shorten()
        return victim

    def order(self) -> Iterator[int]:
        ahead = ArcModel(self.blocks, self.ghost_limit)
        ahead.t1, ahead.t2, ahead.c, ahead.p = dict(self.t1), dict(self.t2), self.c, self.p
        return iter(ahead.evict(len(self.t1) + len(self.t2), NOTHING))

    def count(self) -> None:
        self.c = max(self.c, len(self.t1) + len(self.t2))

    def shorten(self) -> None:
        while len(self.b1) > self.ghost_limit or len(self.t1) + len(self.b1) > self.c:
            del self.b1[next(iter(self.b1))]
        while len(self.b2) > self.ghost_limit or len(self.b1) + len(self.b2) > self.c:
            del self.b2[next(iter(self.b2))]
