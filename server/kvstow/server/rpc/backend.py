"""What the rpc layer asks of the daemon, and nothing else of it.

Every method may be called from any thread and raises a `Refusal` if it refuses, unless it says
otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from kvstow.server.core.events import Event
from kvstow.server.core.requests import (
    OpenedSession,
    Process,
    RankMemory,
    ServerInfo,
    StreamEnd,
)
from kvstow.server.core.snapshot import Snapshot
from kvstow.server.core.types import (
    GroupBlocks,
    GroupKeys,
    Hold,
    Identity,
    LeaseId,
    LookupResult,
    ResetResult,
    SessionId,
    SpaceId,
    TransferId,
    TransferPlan,
)
from kvstow.server.device.base import SharedMemoryHandle


class EventStream(Protocol):
    """One reader's stream of one session's events."""

    @property
    def end(self) -> StreamEnd | None:
        """Why the stream ended; None while it has not."""
        ...

    def next(self, timeout_s: float) -> Sequence[tuple[int, Event]] | None:
        """The next events with their sequence numbers, none if nothing happened for `timeout_s`;
        None once the stream has ended. Refuses nothing."""
        ...

    def close(self) -> None:
        """The reader is gone: `next` returns None at once, also to who waits in it. May be
        repeated. Refuses nothing."""
        ...


class Backend(Protocol):
    """The daemon."""

    @property
    def boot_id(self) -> str:
        """Names this daemon process."""
        ...

    def info(self) -> ServerInfo:
        """Who the daemon is; answered in every state."""
        ...

    def open_session(
        self, identity: Identity, name: str, process: Process | None
    ) -> OpenedSession:
        """Open a session."""
        ...

    def close_session(self, session: SessionId) -> None:
        """End a session; one that is not there is no error."""
        ...

    def identity(self, session: SessionId) -> Identity:
        """What the session was opened with: its layout and its key scheme."""
        ...

    def attach(
        self,
        session: SessionId,
        rank: int,
        memory: RankMemory[SharedMemoryHandle],
        process: Process | None,
    ) -> None:
        """Map a rank's memory."""
        ...

    def detach(self, session: SessionId, rank: int, wait_s: float) -> bool:
        """Unmap a rank's memory after its last copy; whether that was within `wait_s`."""
        ...

    def lookup(
        self,
        session: SessionId,
        generation: int,
        groups: Sequence[GroupKeys],
        *,
        request: str,
        hold: Hold,
        ttl_s: float,
        touch: bool,
        want_states: bool,
    ) -> LookupResult:
        """Count leading READY keys and hold them on request."""
        ...

    def store(
        self,
        session: SessionId,
        generation: int,
        transfer: TransferId,
        groups: Sequence[GroupBlocks],
        deadline_s: float,
    ) -> TransferPlan:
        """Begin a store."""
        ...

    def load(
        self,
        session: SessionId,
        generation: int,
        transfer: TransferId,
        groups: Sequence[GroupBlocks],
        lease: LeaseId | None,
        deadline_s: float,
    ) -> TransferPlan:
        """Begin a load."""
        ...

    def release(self, session: SessionId, leases: Sequence[LeaseId]) -> int:
        """End leases; how many lived."""
        ...

    def cancel(self, session: SessionId, transfers: Sequence[TransferId]) -> tuple[int, int]:
        """Abandon transfers; how many ended at once, how many still run."""
        ...

    def reset(self, session: SessionId, wait_s: float) -> ResetResult:
        """Reset the session's space, then wait up to `wait_s` until it has drained."""
        ...

    def reset_space(self, space: SpaceId, wait_s: float) -> ResetResult:
        """Reset one space."""
        ...

    def reset_all(self, wait_s: float) -> Mapping[SpaceId, ResetResult]:
        """Reset all spaces."""
        ...

    def drop_space(self, space: SpaceId) -> int:
        """Drop a space; how many blocks it had."""
        ...

    def watch(self, session: SessionId, after: int) -> EventStream:
        """Open the session's stream behind event `after`, which is acknowledged."""
        ...

    def acknowledge(self, session: SessionId, sequence: int) -> None:
        """Forget the session's events up to `sequence`."""
        ...

    def snapshot(self) -> Snapshot:
        """A picture of the books. Refuses nothing."""
        ...

    def check(self) -> None:
        """Verify the books; raises BooksError at the first contradiction."""
        ...
