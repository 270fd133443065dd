"""Blocks that were evicted and are remembered, by numbers that identify them; nothing is decided here.

One call may add or forget as many blocks as it may name, so both are work on batches. A dictionary keeps the order in which
they came; unlike an `OrderedDict` or a set it costs the garbage collector nothing, and it grows faster. But what was
forgotten at its front is walked over until it grows the next time, so some of its oldest entries are read ahead.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

READ_AHEAD = 1 << 10
"""Entries: to walk over those that were forgotten may take a tenth of a millisecond."""


class Ghosts:
    """Remembered blocks, oldest first.

    Args:
        read_ahead: entries that are read together, besides those that are forgotten at once.
    """

    __slots__ = ("_known", "_oldest", "_read_ahead")

    def __init__(self, read_ahead: int = READ_AHEAD) -> None:
        self._read_ahead = read_ahead
        self._known: dict[int, None] = {}
        self._oldest: dict[int, None] = {}  # the first ones of `_known`, in the same order

    def __len__(self) -> int:
        return len(self._known)

    def knows_any(self, identities: Iterable[int]) -> bool:
        """Whether one of these is remembered."""
        return not self._known.keys().isdisjoint(identities)

    def add(self, identities: Sequence[int]) -> None:
        """Remember blocks, the oldest of them first; one that is remembered already keeps its place."""
        self._known.update(dict.fromkeys(identities))

    def leave(self, identity: int) -> bool:
        """Forget a block; whether it was remembered."""
        if identity not in self._known:
            return False
        del self._known[identity]
        self._oldest.pop(identity, None)
        return True

    def trim(self, limit: int) -> None:
        """Forget the oldest until at most `limit` are left."""
        known, oldest, excess = self._known, self._oldest, len(self._known) - limit
        if excess <= 0:
            return
        if excess < len(oldest):
            gone = list(islice(oldest, excess))
            for identity in gone:
                del oldest[identity]
        else:
            ahead = list(islice(known, excess + self._read_ahead))
            gone = ahead[:excess]
            self._oldest = dict.fromkeys(ahead[excess:])
        for identity in gone:
            del known[identity]
