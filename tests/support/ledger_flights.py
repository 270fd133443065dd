"""What the property test of the ledger remembers of each engine and of each transfer."""

from collections import Counter
from dataclasses import dataclass, field

from kvstow.server.core.events import TransferEnded
from kvstow.server.core.types import SpaceId, TransferPlan
from support.pool_bytes import Slot

Token = tuple[int, int, bytes]
"""The bytes that a store writes: which transfer of which session, for which key."""


@dataclass
class Reader:
    """A living session: its space, the reports it is owed, the generations that resets began in its time, and what it
    has read.
    """

    space: SpaceId
    owed: list[TransferEnded] = field(default_factory=list)
    seen: int = 0
    resets: Counter[int] = field(default_factory=Counter)
    raised: list[int] = field(default_factory=list)
    drained: Counter[int] = field(default_factory=Counter)


@dataclass
class Flight:
    """A transfer whose copy has not ended."""

    plan: TransferPlan
    space: SpaceId
    tenant: str
    generation: int
    keys: dict[int, bytes]
    expected: dict[Slot, Token] = field(default_factory=dict)
    abandoned: bool = False
    running: bool = False

    @property
    def slots(self) -> dict[int, Slot]:
        """Position in the request to slot."""
        return {
            position: (copies.slot_bytes, slot)
            for copies in self.plan.copies
            for position, slot in zip(copies.positions, copies.slots, strict=True)
        }
