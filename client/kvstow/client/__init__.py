"""The client an engine imports: gRPC and protobuf only, never server code.

docs/client.md shows how to use it. To read it, begin with `session`, what an engine calls, and `standing`, what a
session believes. `lookups`, `transfers`, `resets` and `ranks` do what is asked, on the caller's thread, over `calls`
and `breaker`. `upkeep` is the session's own thread: it opens the session (`opener`), hears its `stream` and acts on
`events`.
"""

from kvstow.v1.cache_pb2 import (
    CudaEvent,
    CudaMemory,
    Draining,
    GroupMemory,
    LeaseExpired,
    Region,
    ResetDrained,
    Resync,
    Segment,
    SharedMemory,
    SpaceReset,
    TransferOverdue,
)
from kvstow.v1.identity_pb2 import Group, Identity, KeyScheme, Layout

from .breaker import BreakerState
from .calls import Budgets
from .client import Client
from .counters import Counters
from .credentials import Credentials
from .errors import KvstowError, Refused, TimedOut, TlsFailed, Unreachable
from .events import Callbacks, SessionEvent
from .fences import FenceSlots
from .hits import Blocks, GroupHits, Hits, Keys
from .lookups import Hold
from .memory import EngineMemory
from .remote_rank import RemoteRank
from .resets import ResetResult
from .session import Session
from .standing import Generation, SessionState, Snapshot, Ticket
from .target import default_target
from .transfer import BlockFailures, Transfer, TransferState

__all__ = [
    "BlockFailures",
    "Blocks",
    "BreakerState",
    "Budgets",
    "Callbacks",
    "Client",
    "Counters",
    "Credentials",
    "CudaEvent",
    "CudaMemory",
    "Draining",
    "EngineMemory",
    "FenceSlots",
    "Generation",
    "Group",
    "GroupHits",
    "GroupMemory",
    "Hits",
    "Hold",
    "Identity",
    "KeyScheme",
    "Keys",
    "KvstowError",
    "Layout",
    "LeaseExpired",
    "Refused",
    "Region",
    "RemoteRank",
    "ResetDrained",
    "ResetResult",
    "Resync",
    "Segment",
    "Session",
    "SessionEvent",
    "SessionState",
    "SharedMemory",
    "Snapshot",
    "SpaceReset",
    "Ticket",
    "TimedOut",
    "TlsFailed",
    "Transfer",
    "TransferOverdue",
    "TransferState",
    "Unreachable",
    "default_target",
]
