"""The least that a request could cost: a bare dictionary of the same keys, probed and changed, and nothing else.

Timed next to the ledger. Both have key objects of their own and get fresh ones for every request, so that neither
profits from memory that the other has just read, or from a hash that is known already.
"""

from collections.abc import Sequence

import numpy as np

from .keys import Keys, Numbers

FILL_BLOCKS = 1024


class Bare:
    """A dictionary from key to slot.

    Args:
        keys: by number.
        limit: numbers that may be stored.
    """

    def __init__(self, keys: Keys, limit: int) -> None:
        self._keys = keys
        self._slots: dict[bytes, int] = {}
        # An array of objects is nothing that the garbage collector walks; the ledger's calls shall not pay for it.
        self._stored = np.empty(limit, dtype=object)

    def fill(self, count: int) -> None:
        """Store the first `count` keys."""
        for start in range(0, count, FILL_BLOCKS):
            numbers = np.arange(start, min(start + FILL_BLOCKS, count))
            self.store(numbers, self._keys.fresh(numbers))

    def lookup(self, keys: Sequence[bytes]) -> None:
        """Probe each key."""
        list(map(self._slots.get, keys))

    def store(self, numbers: Numbers, keys: Sequence[bytes]) -> None:
        """Probe each key, then put it in."""
        self.lookup(keys)
        self._stored[numbers] = keys
        self._slots.update(zip(keys, range(len(keys)), strict=True))

    def replace(self, victims: Numbers, numbers: Numbers, keys: Sequence[bytes]) -> None:
        """Probe each key, take the victims out, and put the keys in."""
        for victim in self._stored[victims].tolist():
            del self._slots[victim]
        self.store(numbers, keys)
