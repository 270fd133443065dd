"""One store or load: what it copies, whose slots it owns, and how far it is.

begin                start                  finish
------> QUEUED ----------------> RUNNING ----------------> DONE | FAILED | ABANDONED
           |                        |
           | abandon                | abandon
           v                        v
       ABANDONED              RUNNING, abandoned:        its slots stay its own and it ends ABANDONED
       (no copy was made)     the copy goes on           when its copy has physically ended
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .index import BlockIndex
from .slots import SlotTable
from .types import (
    GroupCopies,
    LeaseId,
    SessionId,
    SpaceId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)
from .writing import Writing


@dataclass(frozen=True, slots=True)
class Part:
    """The blocks of one group that a transfer copies, position by position.

    Args:
        index: where their keys are WRITING (store) or READY (load).
        table, slots: where they lie.
        positions: of each block in the request, counted over all its groups.
    """

    index: BlockIndex
    table: SlotTable
    slots: Sequence[int]
    positions: Sequence[int]


@dataclass(frozen=True, slots=True)
class StorePart(Part):
    """A part of a store.

    Args:
        writing: the blocks that it has made WRITING.
        named: all keys that the request named in this group, if some were there or on their way.
    """

    writing: Writing
    named: Sequence[bytes]


def group_copies(group: int, part: Part, blocks: Sequence[int]) -> GroupCopies:
    """What the device is to copy for a part, into or from these engine blocks."""
    table = part.table
    return GroupCopies(group, table.slot_bytes, table.locate(part.slots), blocks, part.positions)


@dataclass(slots=True)
class Transfer:
    """A transfer that has begun and whose copy has not ended.

    Args:
        space, generation: where its blocks belong.
        fingerprint: hash of the request, to recognise a retry.
        plan: what a retry of the call is answered.
        deadline: when it is overdue.
        began_at: when it was accepted.
    """

    plan: TransferPlan
    space: SpaceId
    generation: int
    fingerprint: int
    parts: Sequence[Part]
    began_at: float
    deadline: float
    state: TransferState = TransferState.QUEUED
    abandoned: bool = False
    overdue: bool = False

    @property
    def session(self) -> SessionId:
        """Whose transfer it is."""
        return self.plan.session

    @property
    def id(self) -> TransferId:
        """Its number within the session."""
        return self.plan.transfer

    @property
    def kind(self) -> TransferKind:
        """Its direction."""
        return self.plan.kind


@dataclass(frozen=True, slots=True)
class Held:
    """Slots of one group under a lease."""

    table: SlotTable
    index: BlockIndex
    slots: Sequence[int]


@dataclass(frozen=True, slots=True)
class Lease:
    """Holds with an id and a time limit, made by a lookup for one request.

    Args:
        request: the engine's name of the request; a new lookup for it replaces the lease.
        held: what it holds of each group.
    """

    id: LeaseId
    session: SessionId
    space: SpaceId
    request: str
    held: Sequence[Held]
    began_at: float
    expires_at: float

    @property
    def block_count(self) -> int:
        """Blocks that it holds."""
        return sum(len(each.slots) for each in self.held)
