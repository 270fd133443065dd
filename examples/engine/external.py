"""Decides what the engine asks of a cache outside it; whoever implements it decides the rest.

Every request is announced first, and everything it asks and offers belongs to the generation that
was current then: what another generation holds is never mixed with it.
"""

from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import Protocol


class ExternalRequest(Protocol):
    """One request's dealings with the cache. No method raises for a cache that is away or slow.

    The engine owns the blocks of a copy until its future is done, however long that takes and
    whatever the outcome, and only then uses them for something else. So a future must not be done
    while the copy may still touch the engine's memory.
    """

    @property
    def generation(self) -> Hashable:
        """Equal to an earlier request's unless the cache was reset or lost in between."""

    def lookup(self, hashes: Sequence[bytes]) -> int:
        """Say how many leading hashes can be loaded; a cache that is away or slow says 0.

        A result above 0 is followed by one `load` of exactly that many leading hashes, so that
        the cache may keep them until then.
        """

    def load(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> Future[bool]:
        """Begin to copy what the hashes name into the engine's blocks.

        Returns:
            A future that is true when every block holds its bytes, false when any may not.
        """

    def store(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> Future[bool]:
        """Begin to copy the engine's blocks out under the names given.

        Returns:
            A future that is true when the cache now has the blocks, false when it may not.
        """


class ExternalCache(Protocol):
    """A cache of blocks that outlives the engine."""

    def begin(self) -> ExternalRequest:
        """Announce a request whose computation begins now."""

    def count(self, hashes: Sequence[bytes]) -> int:
        """Say how many leading hashes are there, without keeping them for a load."""

    def reset(self) -> None:
        """Make everything stored so far unfindable, for every engine that shares the cache."""
