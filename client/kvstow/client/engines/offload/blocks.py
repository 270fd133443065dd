"""Books over the engine's own blocks: when they were handed out, what is confirmed, offered, read.

A block's content is fixed from the moment it is full until the block is handed out again; so what
is known of a block is forgotten exactly then. An engine may hand out a block in a step, give it a new
name and change its mind, which nobody hears of; so what a block holds is noted with its name. Only the
engine's scheduler thread uses them.
"""

from collections.abc import Iterable, Mapping, Sequence

from .account import Name


class EngineBlocks:
    """The blocks of one engine.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self._epochs = [0] * count
        self._steps = [0] * count
        self._contents: list[Name | None] = [None] * count
        self._doubtful: set[int] = set()
        self._offered = bytearray(count)
        self._readers: dict[int, int] = {}

    def hand_out(
        self,
        blocks: Sequence[int],
        epoch: int,
        step: int,
        copied_from: Mapping[int, int] | None = None,
    ) -> None:
        """These blocks are written from now on.

        Args:
            epoch: the current one.
            step: the one that is being planned.
            copied_from: for blocks that begin as a copy of another, the other: what they hold is
                no newer and no better than that.
        """
        for block in blocks:
            self._epochs[block] = epoch
            self._steps[block] = step
            self._contents[block] = None
            self._offered[block] = False
        self._doubtful.difference_update(blocks)
        for block, source in (copied_from or {}).items():
            self._epochs[block] = self._epochs[source]
            if self._contents[source] is None:
                self._doubtful.add(block)

    def confirm(self, contents: Iterable[tuple[int, Name]], step: int | None = None) -> None:
        """These blocks hold what they are named for here.

        Args:
            step: unless they were handed out after this one; None: they were not.
        """
        for block, name in contents:
            if block not in self._doubtful and (step is None or self._steps[block] <= step):
                self._contents[block] = name

    def are_confirmed(self, contents: Iterable[tuple[int, Name]]) -> bool:
        """Whether all of these blocks hold what they are named for here."""
        return all(self._contents[block] == name for block, name in contents)

    def is_doubtful(self, block: int) -> bool:
        """Whether the block began as a copy of what is not confirmed."""
        return block in self._doubtful

    def may_be_stored(self, block: int, name: Name, epoch: int) -> bool:
        """Whether the block holds that, it was computed in this epoch, and nobody is copying it."""
        return (
            self._contents[block] == name
            and self._epochs[block] == epoch
            and block not in self._readers
        )

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
