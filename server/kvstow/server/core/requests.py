"""What the daemon is asked and answers beyond the ledger's own values: server information, processes, rank memory.

Plain frozen data between the rpc layer and the daemon; nothing is decided here.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from .spans import Segment
from .types import SessionId, SpaceId

HandleT = TypeVar("HandleT")
"""A device's own type of handle; the core never looks inside one."""

FenceT = TypeVar("FenceT")
"""The same of fences."""


class ServerState(Enum):
    """Where the daemon is in its life: STARTING -> READY -> DRAINING."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class StreamEnd(Enum):
    """Why a session's stream of events ends.

    CLOSED: the engine closed the session, or the reader the stream. REPLACED: a newer stream of the session was
    opened. LOST: the session has ended otherwise. SHUTDOWN: the daemon has shut down.
    """

    CLOSED = "closed"
    REPLACED = "replaced"
    LOST = "lost"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may ask for.

    Args:
        max_keys_per_call: keys in one call, over all its groups.
        max_lease_ttl_s: longest life of a lease.
        max_deadline_s: longest deadline of a transfer.
        max_transfers_per_session: transfers unfinished, or reported and not acknowledged.
        extent_bytes: size of an extent of the host pool; no slot is larger.
        pool_bytes: size of the host pool.
    """

    max_keys_per_call: int
    max_lease_ttl_s: float
    max_deadline_s: float
    max_transfers_per_session: int
    extent_bytes: int
    pool_bytes: int


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that the daemon sees.

    Args:
        uuid: as CUDA knows it, in lower case, without a prefix.
        name: of the product.
        trouble: what is wrong with it; empty when it is healthy.
    """

    uuid: str
    name: str
    trouble: str


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who the daemon is, what it can do and how it fares.

    Args:
        version: of the distribution.
        boot_id: names this daemon process.
        limits: constant for the life of the process.
        policy: name of the eviction policy.
        uptime_s: seconds since the start.
        copy_kernel: what makes the copies.
        gpus: those that the daemon sees.
        cuda_off: why it runs without CUDA; empty if it does not.
        pinned: whether the host pool is page-locked.
    """

    version: str
    boot_id: str
    state: ServerState
    limits: Limits
    policy: str
    uptime_s: float
    copy_kernel: str
    gpus: tuple[Gpu, ...] = ()
    cuda_off: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """An operating system process, told apart from a later one with the same id.

    Args:
        pid: process id as the process sees it.
        pid_namespace: inode number of its process id namespace.
        start_time_ticks: field 22 of `/proc/self/stat`.
    """

    pid: int
    pid_namespace: int
    start_time_ticks: int


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """Answer to the opening of a session.

    Args:
        generation: current generation of its space.
        grace_s: how long it lives without a stream.
        slot_bytes: per group of the layout, bytes of host pool that one block takes.
    """

    session: SessionId
    space: SpaceId
    generation: int
    grace_s: float
    slot_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Where the blocks of one group lie in a rank's regions.

    Args:
        block_count: block ids run from 0 to block_count - 1.
        segments: one per segment of the group's layout, in its order.
    """

    block_count: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class RankMemory(Generic[HandleT, FenceT]):
    """The memory that one rank's KV cache lives in.

    Args:
        handles: how the device opens each region; `Segment.region` indexes them.
        groups: one per group of the layout, in its order.
        fences: the rank's ring of fences; transfers name them by index.
    """

    handles: tuple[HandleT, ...]
    groups: tuple[GroupMemory, ...]
    fences: tuple[FenceT, ...] = ()
