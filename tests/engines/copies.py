"""Transfers at the simulated daemon, and in what ways it can fail its engines."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engines.memory import Content
from kvstow.client import Generation, Transfer

Name = tuple[int, bytes]


@dataclass
class Faults:
    """How the daemon fares.

    Attributes:
        silent: calls are not answered in time.
        full: nothing more is accepted.
        picky: keys are declined when they are offered first.
        busy: others are storing every key that is offered.
        slow: no rank attaches its memory.
        quick: copies end while the workers are at work on the step that began them.
        reset_owed: a reset was not answered; nothing is found until it was made.
        max_keys: in one call.
        max_transfers: that have not ended.
        seen: keys that were offered to a picky daemon.
    """

    silent: bool = False
    full: bool = False
    picky: bool = False
    busy: bool = False
    slow: bool = False
    quick: bool = False
    reset_owed: bool = False
    max_keys: int = 6
    max_transfers: int = 1024
    seen: set[Name] = field(default_factory=set)

    def declines(self, name: Name) -> bool:
        """Whether a key is not taken, because it is seen for the first time."""
        is_new = name not in self.seen
        self.seen.add(name)
        return self.picky and is_new


@dataclass(eq=False)
class Copy:
    """A transfer at the daemon.

    Attributes:
        items: keys and blocks, in the order of positions.
        before: what the blocks held when it began.
        accepted: positions that are copied.
        statuses: what the engine is told when it is answered.
    """

    transfer: Transfer
    is_store: bool
    items: list[tuple[Name, int]]
    before: list[Content]
    accepted: list[int]
    generation: Generation
    statuses: str = ""
    held: list[Name] = field(default_factory=list)

    @property
    def blocks(self) -> set[int]:
        """Blocks that it reads or writes."""
        return {self.items[position][1] for position in self.accepted}

    @property
    def suspected_blocks(self) -> set[int]:
        """Blocks that it reads or writes as far as the engine knows, who may lack the answer."""
        if self.transfer.statuses or not self.is_store:
            return self.blocks
        return {block for _, block in self.items}


def names_written(copies: Iterable[Copy], generation: Generation) -> set[Name]:
    """What these copies store in this generation."""
    return {
        copy.items[position][0]
        for copy in copies
        if copy.is_store and copy.generation == generation
        for position in copy.accepted
    }
