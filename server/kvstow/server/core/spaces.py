"""A space: one cache namespace with its current generation.

A reset raises the generation by giving the space new, empty indexes. The old ones are handed to their slot tables, which
take the slots back little by little; whatever still runs on them is counted here until it has ended.

What a space has counted outlives it, on the account of its tenant and model.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

from .history import Ended
from .index import BlockIndex
from .slots import SlotTable
from .types import DropReason, Identity, SpaceId

ENDED_LIMIT = 64
"""Ended generations that are remembered, to explain what became of keys."""

ACCOUNT_LIMIT = 64
"""Accounts that belong to one tenant and model."""

Account: TypeAlias = tuple[str, str]
"""Tenant and model, which outlive weights versions."""

OTHERS: Account = ("other", "other")
"""The account that is shared by all who come after the first ACCOUNT_LIMIT."""


@dataclass(slots=True)
class SpaceCounters:
    """What happened in a space since it exists; every field only rises."""

    hit_blocks: int = 0
    pending_blocks: int = 0
    missed_blocks: int = 0
    lookups: int = 0
    stored_blocks: int = 0
    loaded_blocks: int = 0
    evicted_blocks: int = 0
    resets: int = 0
    offered: Counter[str] = field(default_factory=Counter)
    """Offered blocks by the name of their StoreStatus."""
    unstored: Counter[str] = field(default_factory=Counter)
    """Accepted blocks that never became READY: of a FAILED or an ABANDONED store."""
    dropped: Counter[DropReason] = field(default_factory=Counter)

    def copied(self) -> "SpaceCounters":
        """A copy, which does not change any more."""
        return replace(
            self,
            offered=self.offered.copy(),
            unstored=self.unstored.copy(),
            dropped=self.dropped.copy(),
        )

    def __add__(self, other: "SpaceCounters") -> "SpaceCounters":
        """What both have counted together."""
        names = [each.name for each in fields(self)]
        return SpaceCounters(
            **{name: getattr(self, name) + getattr(other, name) for name in names}
        )

    @property
    def dropped_blocks(self) -> int:
        """READY blocks that were dropped, for any reason."""
        return self.dropped.total()


@dataclass(slots=True)
class Space:
    """What one identity shares.

    Attributes:
        generation: current generation; starts at one.
        indexes, tables: one per group of the layout.
        sessions: how many sessions belong to it.
        running: transfers that have not ended, by the generation they began in.
        ended: the latest generations that a reset has ended.
        draining: generations whose reset has not drained yet, oldest first.
        counters: what happened so far.
    """

    id: SpaceId
    identity: Identity
    indexes: Sequence[BlockIndex]
    tables: Sequence[SlotTable]
    generation: int = 1
    sessions: int = 0
    running: Counter[int] = field(default_factory=Counter)
    draining: list[int] = field(default_factory=list)
    ended: deque[Ended] = field(default_factory=lambda: deque(maxlen=ENDED_LIMIT))
    counters: SpaceCounters = field(default_factory=SpaceCounters)

    @property
    def ready_count(self) -> int:
        """Blocks that are READY."""
        return sum(index.ready_count for index in self.indexes)

    @property
    def writing_count(self) -> int:
        """Blocks that are WRITING."""
        return sum(index.writing.count for index in self.indexes)

    @property
    def evicted_count(self) -> int:
        """Blocks that left by policy, over all generations."""
        return self.counters.evicted_blocks + sum(index.evicted_count for index in self.indexes)

    def counted(self) -> SpaceCounters:
        """What happened so far, the evictions of this generation included; a copy."""
        counters = self.counters.copied()
        counters.evicted_blocks = self.evicted_count
        return counters

    def transfer_ended(self, generation: int) -> list[int]:
        """A transfer that began in `generation` is over; returns the resets that have drained with it."""
        self.running[generation] -= 1
        if self.running[generation]:
            return []
        del self.running[generation]
        return self.drained()

    def drained(self) -> list[int]:
        """Resets to generations before which nothing runs any more; each is returned once."""
        oldest = min(self.running, default=self.generation)
        done = [generation for generation in self.draining if generation <= oldest]
        self.draining = self.draining[len(done) :]
        return done


@dataclass(slots=True)
class Accounts:
    """What spaces have counted together, by account: exact, and bounded however many spaces there ever were.

    What is on an account only rises, so no tenant and model may come to another one later: each gets its own when its first
    space is made.
    """

    sums: dict[Account, SpaceCounters] = field(default_factory=dict)

    def open(self, identity: Identity) -> Account:
        """The account of a space."""
        account = (identity.tenant, identity.model)
        if account not in self.sums and len(self.sums) >= ACCOUNT_LIMIT:
            account = OTHERS
        if account not in self.sums:
            self.sums[account] = SpaceCounters()
        return account

    def add(self, identity: Identity, counters: SpaceCounters) -> Account:
        """Put on its account what a space has counted; returns which that is."""
        account = self.open(identity)
        self.sums[account] += counters
        return account

    def copied(self) -> "Accounts":
        """A copy, which does not change when this does."""
        return Accounts(self.sums.copy())
