"""The values the core speaks in: identities, batches of blocks, states and plans.

Everything here is immutable and holds no behaviour beyond arithmetic on itself. Sizes are bytes, times are seconds
of one monotonic clock that the caller reads; keys are the engine's opaque block hashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NewType

SpaceId = NewType("SpaceId", int)
SessionId = NewType("SessionId", int)
LeaseId = NewType("LeaseId", int)
TransferId = NewType("TransferId", int)
"""Chosen by the client; unique and rising within its session."""

SLOT_ALIGNMENT = 64
"""Slots start on cache lines, so that no two copies ever write the same line."""


class TransferKind(Enum):
    """The two directions: a store copies device to host, a load host to device."""

    STORE = "store"
    LOAD = "load"


class TransferState(Enum):
    """QUEUED -> RUNNING -> one of DONE, FAILED, ABANDONED; a QUEUED transfer may also end ABANDONED without a copy."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"


class KeyState(Enum):
    """What a lookup sees of one key; the values are the letters of the per-key state string."""

    READY = "R"
    WRITING = "W"
    ABSENT = "."


class StoreStatus(Enum):
    """What became of one offered block; the values are the letters of the per-block status string."""

    ACCEPTED = "A"
    ALREADY_STORED = "S"
    ALREADY_STORING = "W"
    NO_SPACE = "N"
    NOT_ADMITTED = "D"


class Hold(Enum):
    """Which hits a lookup puts under a lease: none, the returned prefixes, or every READY key it was asked for."""

    NONE = "none"
    PREFIX = "prefix"
    READY = "ready"


class SessionEnd(Enum):
    """Why a session ended."""

    CLOSED = "closed"
    STREAM_LOST = "stream_lost"
    PROCESS_DIED = "process_died"
    SHUTDOWN = "shutdown"


class DropReason(Enum):
    """Why READY blocks were dropped: a reset, the drop of their space, or a load that could not read them."""

    RESET = "reset"
    DROP_SPACE = "drop_space"
    FAILED_LOAD = "failed_load"


class Fate(Enum):
    """What became of a key last: READY and WRITING are there; of the others the name says why it is not.

    STORED: READY until now, kept only in the history. EVICTED: to make room. RECLAIMED: its extent was taken for another
    slot size. RESET: dropped by a reset. LOAD_FAILED: dropped, because it could not be read. STORE_FAILED and
    STORE_ABANDONED: it was never READY. NO_SPACE and NOT_ADMITTED: it was offered in vain. UNKNOWN: nothing is remembered.
    """

    READY = "ready"
    WRITING = "writing"
    STORED = "stored"
    EVICTED = "evicted"
    RECLAIMED = "reclaimed"
    RESET = "reset"
    LOAD_FAILED = "load_failed"
    STORE_FAILED = "store_failed"
    STORE_ABANDONED = "store_abandoned"
    NO_SPACE = "no_space"
    NOT_ADMITTED = "not_admitted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KeyFate:
    """What became of one key, how many seconds ago, and in which generation (RESET: which the reset ended)."""

    fate: Fate
    age_s: float
    generation: int


@dataclass(frozen=True, slots=True)
class Group:
    """One KV cache group: the bytes of one block on one rank, as a sequence of segments (one per layer, say).

    Args:
        segment_bytes: bytes of each segment of a block, in the order in which they lie in a slot.
        replicated: every rank holds the same bytes (MLA), so the block is stored once and loaded to all ranks.
    """

    segment_bytes: tuple[int, ...]
    replicated: bool = False

    @property
    def block_bytes(self) -> int:
        """Bytes of one block on one rank."""
        return sum(self.segment_bytes)

    def slot_bytes(self, world_size: int) -> int:
        """Bytes of the slot that holds one block for all ranks, aligned to SLOT_ALIGNMENT."""
        used = self.block_bytes * (1 if self.replicated else world_size)
        return -(-used // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Layout:
    """What makes the bytes of two engines interchangeable.

    Args:
        dtype: element type of the KV cache, as the engine names it.
        block_tokens: tokens in one block.
        world_size: ranks that share each slot.
        order: the engine's name for the order of dimensions inside a segment (for instance "LBHNC").
        groups: one entry per KV cache group; a group is named by its position.
    """

    dtype: str
    block_tokens: int
    world_size: int
    order: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class KeyScheme:
    """How block hashes are made.

    Args:
        hash_name: name of the hash function and its chaining.
        key_bytes: length of every key of the space.
        fingerprint: hash of a fixed token list, so that two seeds of one hash never share a space.
    """

    hash_name: str
    key_bytes: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that must be equal before one engine may read another's blocks; it names a space."""

    tenant: str
    model: str
    weights_version: str
    layout: Layout
    key_scheme: KeyScheme


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """Keys of one group, in prefix order."""

    group: int
    keys: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class GroupBlocks:
    """Keys of one group and, position by position, the engine block ids their bytes lie in."""

    group: int
    keys: Sequence[bytes]
    blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class GroupHits:
    """What a lookup found for one group.

    Args:
        hit_count: leading keys that are READY.
        pending_count: keys right after the hits that are READY or WRITING: what the hit would grow by if every
            running store ended well now.
        states: one KeyState letter per key, or "" when not asked for.
    """

    hit_count: int
    pending_count: int
    states: str = ""


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Answer to a lookup: hits per asked group, and the lease if anything was held."""

    generation: int
    groups: tuple[GroupHits, ...]
    lease: LeaseId | None
    lease_expires_at: float | None


@dataclass(frozen=True, slots=True)
class GroupCopies:
    """The blocks of one group that a transfer copies: position by position, engine block and slot.

    Args:
        group: index of the group in the layout.
        slot_bytes: size of the slots.
        slots: where the slots lie in the host pool; see `slots.SlotTable.locate`.
        blocks: engine block ids.
        positions: position of each block in the request, counted over all its groups; failures are reported by it.
    """

    group: int
    slot_bytes: int
    slots: Sequence[int]
    blocks: Sequence[int]
    positions: Sequence[int]


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """What a begun transfer asks of the device: the caller must queue the copies and call `Ledger.finish` once.

    Args:
        session: whose transfer it is.
        transfer: its id.
        kind: direction of the copies.
        copies: per group; empty when nothing is to be copied, and then no transfer was begun and none is reported.
        statuses: stores only, one StoreStatus letter per offered block over all groups.
        repeated: the call was a retry of a transfer already begun; nothing is to be copied.
    """

    session: SessionId
    transfer: TransferId
    kind: TransferKind
    copies: tuple[GroupCopies, ...]
    statuses: str = ""
    repeated: bool = False

    def repetition(self) -> "TransferPlan":
        """What a retry of the call is answered."""
        return TransferPlan(self.session, self.transfer, self.kind, (), self.statuses, True)


@dataclass(frozen=True, slots=True)
class BlockFailure:
    """One block that one rank could not copy: its position in the request, the rank, and why."""

    position: int
    rank: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResetResult:
    """Answer to a reset.

    Args:
        generation: the new generation.
        dropped_count: entries that were READY and are gone.
        abandoned_stores, abandoned_loads: transfers of older generations whose copy still runs.
        ended_count: queued transfers that ended without a copy.
    """

    generation: int
    dropped_count: int
    abandoned_stores: int
    abandoned_loads: int
    ended_count: int

    @property
    def drained(self) -> bool:
        """No copy of an older generation is left."""
        return self.abandoned_stores + self.abandoned_loads == 0
