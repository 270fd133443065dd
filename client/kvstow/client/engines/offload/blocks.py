"""Books over the engine's own blocks: when they were handed out, what was offered, who reads them.

A block's content is fixed from the moment it is full until the block is handed out again; so what
is known of a block is forgotten exactly then. Only the engine's scheduler thread uses them.
"""

from collections.abc import Iterable, Mapping


class EngineBlocks:
    """The blocks of one engine.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self._epochs = [0] * count
        self._offered = bytearray(count)
        self._readers: dict[int, int] = {}

    def hand_out(
        self, blocks: Iterable[int], epoch: int, copied_from: Mapping[int, int] | None = None
    ) -> None:
        """These blocks are written from now on.

        Args:
            epoch: the current one.
            copied_from: for blocks that begin as a copy of another, the other: what they hold is
                no newer than that.
        """
        for block in blocks:
            self._epochs[block] = epoch
            self._offered[block] = False
        for block, source in (copied_from or {}).items():
            self._epochs[block] = self._epochs[source]

    def may_be_stored(self, block: int, epoch: int) -> bool:
        """Whether all the block holds was computed in this epoch, and nobody is copying it."""
        return self._epochs[block] == epoch and block not in self._readers

    def is_offered(self, block: int) -> bool:
        """Whether the block's content was offered and not refused, as far as is known."""
        return bool(self._offered[block])

    def mark_offered(self, block: int) -> None:
        """Its content is stored, or on its way."""
        self._offered[block] = True

    def forget_offer(self, block: int) -> None:
        """Its content was not stored."""
        self._offered[block] = False

    def forget_offers(self) -> None:
        """Nothing is stored any more."""
        self._offered = bytearray(len(self._offered))

    def begin_reading(self, block: int, store: int) -> None:
        """A store reads the block."""
        self._readers[block] = store

    def end_reading(self, block: int, store: int) -> None:
        """The store has ended, if it is the one that reads the block."""
        if self._readers.get(block) == store:
            del self._readers[block]

    def readers(self, blocks: Iterable[int]) -> set[int]:
        """The stores that read any of these blocks."""
        if not self._readers:
            return set()
        return {self._readers[block] for block in blocks if block in self._readers}
