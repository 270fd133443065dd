"""Which blocks are worth a slot: those that were offered before.

Decided here: whether a block has been seen often enough. Not decided here: whether there is room. Called by the ledger
alone, under the daemon's lock.
"""

from collections import OrderedDict
from collections.abc import Sequence


class Admission:
    """Admits a block from its n-th sight on, as far as a bounded memory reaches.

    Args:
        threshold: the sight on which a block is admitted; 1 admits all at once and remembers nothing.
        limit: blocks whose sightings are counted; those not offered for longest are forgotten first. The dictionary
            of 65,536 blocks grows within about 5 ms, one of a million within about a tenth of a second.

    Raises:
        ValueError: an argument is below 1.
    """

    def __init__(self, threshold: int, limit: int) -> None:
        if threshold < 1 or limit < 1:
            raise ValueError(f"threshold {threshold} and limit {limit} must be at least 1")
        self._threshold = threshold
        self._limit = limit
        self._sightings: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        """Count the blocks that are remembered."""
        return len(self._sightings)

    @property
    def admits_all(self) -> bool:
        """Whether the first sight is enough, so that nobody needs to ask."""
        return self._threshold == 1

    def admits(self, identities: Sequence[int]) -> list[bool]:
        """Count one sight of each block and say which are admitted.

        Args:
            identities: numbers that name the blocks of one offer, in prefix order; the head is remembered longer than
                the tail. All are remembered until the next offer, even if they are more than the limit.
        """
        if self._threshold == 1:
            return [True] * len(identities)
        sightings = self._sightings
        admitted = []
        for identity in reversed(identities):
            count = min(sightings.pop(identity, 0) + 1, self._threshold)
            sightings[identity] = count
            admitted.append(count == self._threshold)
        while len(sightings) > max(self._limit, len(identities)):
            sightings.popitem(last=False)
        admitted.reverse()
        return admitted
