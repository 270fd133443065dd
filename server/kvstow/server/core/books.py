"""All tables of the ledger in one place, and the moves that several verbs share.

Only the verbs (`lookups`, `stores`, `loads`, `resets`, `lives`, `expiry`) change the books, each as one indivisible step:
it refuses before its first change, or it carries through.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .admission import Admission
from .deadlines import Deadlines, GraceDue, LeaseDue, SweepDue, TransferDue
from .distributions import Distribution
from .errors import NoSuchSession, NoSuchSpace, StaleGeneration
from .events import Event, ResetDrained, TransferEnded
from .loose import Loose
from .pool import HostPool
from .sessions import Session
from .spaces import Accounts, Space
from .transfers import Lease, StorePart, Transfer
from .types import (
    BlockFailure,
    DropReason,
    Fate,
    Identity,
    LeaseId,
    SessionId,
    SpaceId,
    TransferId,
    TransferKind,
    TransferState,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the books.

    Args:
        max_keys: keys in one call.
        max_transfers: transfers of a session that are unfinished or whose report is unacknowledged.
        max_leases: leases of a session.
        max_sessions, max_spaces: of the daemon.
        max_tenant_spaces: of one tenant; None for as many as there may be.
        max_tightened: slots of leases and transfers which it ends that one call gives back; what is more is swept.
        max_history: keys that are remembered when they have come or gone, and as many that were refused.
        max_events: events besides terminal reports that are kept for a reader.
        max_lease_s: longest life of a lease, in seconds.
        max_deadline_s: longest deadline of a transfer, in seconds.
        grace_s: how long a session lives without a stream, in seconds.
    """

    max_keys: int = 4096
    max_transfers: int = 1024
    max_leases: int = 4096
    max_sessions: int = 64
    max_spaces: int = 64
    max_tenant_spaces: int | None = None
    max_tightened: int = 8192
    max_history: int = 1 << 18
    max_events: int = 1024
    max_lease_s: float = 300.0
    max_deadline_s: float = 3600.0
    grace_s: float = 10.0


LOOKUP_BOUNDS = (1, 4, 16, 64, 256, 1024, 4096)
"""Keys: with blocks of 16 tokens, requests of up to 64 thousand tokens."""


@dataclass(slots=True)
class Counters:
    """What happened since the start, apart from what a space that lives counts; every field only rises."""

    transfers: Counter[tuple[TransferKind, TransferState]] = field(default_factory=Counter)
    session_ends: Counter[str] = field(default_factory=Counter)
    sessions_opened: int = 0
    leases_expired: int = 0
    overdue: int = 0
    late_completions: int = 0
    events_lost: int = 0
    resyncs: int = 0
    dropped: Counter[DropReason] = field(default_factory=Counter)
    """READY blocks that were dropped, those of spaces that are gone included."""
    lookup_keys: Distribution = field(default_factory=lambda: Distribution(LOOKUP_BOUNDS))
    """Keys of each lookup, over all its groups."""
    accounts: Accounts = field(default_factory=Accounts)
    """What spaces had counted that are gone."""

    def copied(self) -> "Counters":
        """A copy, which does not change any more."""
        return replace(
            self,
            transfers=self.transfers.copy(),
            session_ends=self.session_ends.copy(),
            dropped=self.dropped.copy(),
            lookup_keys=self.lookup_keys.copied(),
            accounts=self.accounts.copied(),
        )


@dataclass(slots=True)
class Serials:
    """Numbers that are never given twice.

    Args:
        session_base: session ids start above it.
    """

    session_base: int
    _last: int = 0

    def next(self) -> int:
        """Names a space, a lease or an index."""
        self._last += 1
        return self._last

    def next_session(self) -> SessionId:
        """Names a session."""
        return SessionId(self.session_base + self.next())


@dataclass(slots=True)
class Books:
    """Every table; keys of `transfers` are session and transfer id."""

    limits: Limits
    pool: HostPool
    admission: Admission
    serials: Serials
    spaces: dict[SpaceId, Space] = field(default_factory=dict)
    space_ids: dict[Identity, SpaceId] = field(default_factory=dict)
    sessions: dict[SessionId, Session] = field(default_factory=dict)
    transfers: dict[tuple[SessionId, TransferId], Transfer] = field(default_factory=dict)
    leases: dict[LeaseId, Lease] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    counters: Counters = field(default_factory=Counters)
    told: set[SessionId] = field(default_factory=set)
    """Sessions that got an event since somebody last asked."""

    def session(self, session: SessionId) -> Session:
        """The session with this id.

        Raises:
            NoSuchSession: it ended or never was.
        """
        found = self.sessions.get(session)
        if found is None:
            raise NoSuchSession(
                f"session {session} does not exist in this daemon process", session=session
            )
        return found

    def space(self, space: SpaceId) -> Space:
        """The space with this id.

        Raises:
            NoSuchSpace: it was dropped or never was.
        """
        found = self.spaces.get(space)
        if found is None:
            raise NoSuchSpace(f"space {space} does not exist in this daemon process", space=space)
        return found

    def space_at(self, session: Session, generation: int) -> Space:
        """The session's space, if `generation` is its current one.

        Raises:
            StaleGeneration: it is another one.
        """
        space = self.spaces[session.space]
        if generation != space.generation:
            raise StaleGeneration(
                f"generation {generation} of space {space.id} is over, the current one is {space.generation}",
                generation=space.generation,
            )
        return space

    def forget_space(self, space: Space) -> None:
        """Take a space out that has no session and no block any more."""
        for index in space.indexes:
            index.retired = True  # slots of its last stores may still be loose
        self.counters.accounts.add(space.identity, space.counted())
        del self.spaces[space.id]
        del self.space_ids[space.identity]
        tables = (table for left in self.spaces.values() for table in left.tables)
        self.pool.forget_tables({table.slot_bytes for table in tables})

    def tell(self, session: Session, event: Event, now: float) -> None:
        """Put an event on a session's stream; a session that reads without ever acknowledging ends."""
        outbox = session.outbox
        lost, resyncs = outbox.lost_count, outbox.resync_count
        outbox.put(event)
        self.told.add(session.id)
        self.counters.events_lost += outbox.lost_count - lost
        self.counters.resyncs += outbox.resync_count - resyncs
        if outbox.overflowed:
            session.stream.grace_deadline = now
            self.deadlines.add(now, GraceDue(session.id))

    def tell_space(self, space: Space, event: Event, now: float) -> None:
        """Put an event on the stream of every session of a space."""
        for session in self.sessions.values():
            if session.space == space.id:
                self.tell(session, event, now)

    def void_lease(self, lease: LeaseId, now: float) -> Lease:
        """End a lease that lives; its slots come loose."""
        found = self.leases.pop(lease)
        for held in found.held:
            self.pool.loosen(held.table, held.index, Loose(held.slots, now))
        del self.sessions[found.session].leases[found.request]
        self.deadlines.drop(LeaseDue(lease))
        return found

    def count_dropped(self, space: Space, reason: DropReason, count: int) -> None:
        """READY blocks of a space were dropped."""
        if count:
            space.counters.dropped[reason] += count
            self.counters.dropped[reason] += count

    def begin_transfer(self, session: Session, transfer: Transfer) -> None:
        """Enter a transfer that owns its slots from now on."""
        self.transfers[transfer.session, transfer.id] = transfer
        session.transfers[transfer.id] = transfer
        self.spaces[transfer.space].running[transfer.generation] += 1
        self.deadlines.add(transfer.deadline, TransferDue(transfer.session, transfer.id))

    def abandon(self, transfer: Transfer, now: float) -> None:
        """Nobody will see the result: a queued transfer ends now, a running one when its copy has ended."""
        if transfer.abandoned:
            return
        transfer.abandoned = True
        for part in transfer.parts:
            if isinstance(part, StorePart):
                serial, keys = part.index.serial, part.writing.blocks
                voided = self.pool.history.batch(serial, Fate.STORE_ABANDONED, keys, now)
                part.index.writing.void(part.writing, voided)
                self.spaces[transfer.space].counters.unstored["ABANDONED"] += len(keys)
        if transfer.state is TransferState.QUEUED:
            self.release_slots(transfer, now)
            self.end_transfer(transfer, TransferState.ABANDONED, (), now)

    def release_slots(self, transfer: Transfer, now: float) -> None:
        """A transfer gives up its slots without a result: they come loose."""
        for part in transfer.parts:
            writing = part.writing if isinstance(part, StorePart) else None
            self.pool.loosen(part.table, part.index, Loose(part.slots, now, writing))

    def tighten(self, now: float) -> None:
        """Give back the slots that this call made loose, as far as one call may; the rest is swept, and soon."""
        if self.pool.tighten(self.limits.max_tightened):
            self.deadlines.add(now, SweepDue())

    def end_transfer(
        self,
        transfer: Transfer,
        state: TransferState,
        failures: Sequence[BlockFailure],
        now: float,
    ) -> None:
        """Write the one terminal report of a transfer that owns no slot any more."""
        transfer.state, transfer.parts = state, ()
        del self.transfers[transfer.session, transfer.id]
        self.deadlines.drop(TransferDue(transfer.session, transfer.id))
        self.counters.transfers[transfer.kind, state] += 1
        session = self.sessions.get(transfer.session)
        if session is not None:
            session.overdue_count -= transfer.overdue
            del session.transfers[transfer.id]
            session.settled[transfer.id] = transfer
            self.tell(
                session, TransferEnded(transfer.id, transfer.kind, state, tuple(failures)), now
            )
        space = self.spaces.get(transfer.space)
        if space is not None:
            self.tell_drained(space, space.transfer_ended(transfer.generation), now)

    def tell_drained(self, space: Space, generations: Sequence[int], now: float) -> None:
        """Report resets that have drained."""
        for generation in generations:
            self.tell_space(space, ResetDrained(generation), now)
