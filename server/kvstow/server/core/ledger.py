"""The ledger: the only place where the books change.

Every request has three beats:

1. `plan = ledger.begin_store(...)`, under the lock: takes slots, chooses victims, finds duplicates; returns a frozen
   plan, or raises a refusal and changes nothing.
2. The device copies, no lock held; that may take long, may fail, may outlive its engine. `start` tells when it begins.
3. `ledger.finish(...)`, under the lock: WRITING becomes READY, or the slots go back.

A slot under a copy belongs to the transfer, neither to the session nor to the index. Nothing frees it but the physical end
of that copy: not reset, not cancel, not a deadline, not the death of the engine.

The ledger is pure: no clock (`now` is an argument, in seconds of one monotonic clock), no lock, no thread, no I/O. Its
caller holds one lock around every call.
"""

from collections.abc import Mapping, Sequence

from . import expiry, lives, loads, lookups, resets, stores, zeroing
from .admission import Admission
from .books import Books, Limits, Serials
from .check import check
from .events import Draining, Event
from .history import History, Recollection
from .lookups import LookupOptions
from .pool import HostPool, PolicyFactory, Zeroes, no_tenant
from .recall import recall
from .snapshot import Capture, Snapshot, capture
from .types import (
    BlockFailure,
    GroupBlocks,
    GroupKeys,
    Identity,
    LeaseId,
    LookupResult,
    ResetResult,
    SessionEnd,
    SessionId,
    SpaceId,
    TransferId,
    TransferPlan,
    TransferState,
)


class Ledger:
    """Books and verbs.

    Args:
        pool_bytes: size of the host pool.
        extent_bytes: size of its extents; every slot fits into one.
        make_policy: makes the eviction policy of a slot size.
        admission: decides which offered blocks are worth storing.
        limits: what bounds the books.
        session_base: session ids start above it; a random one keeps those of another daemon process from being valid.
        zeroes: whether the freed slots of a tenant are zeroed.
    """

    def __init__(
        self,
        pool_bytes: int,
        extent_bytes: int,
        *,
        make_policy: PolicyFactory,
        admission: Admission,
        limits: Limits,
        session_base: int = 0,
        zeroes: Zeroes = no_tenant,
    ) -> None:
        history = History(limits.max_history)
        pool = HostPool(pool_bytes, extent_bytes, make_policy, history, zeroes)
        self._books = Books(limits, pool, admission, Serials(session_base))

    def open_session(self, identity: Identity, name: str, *, now: float) -> SessionId:
        """Open a session in the space of `identity`, which is made if it is new; it lives for the grace time unless
        its stream opens.

        Raises:
            InvalidRequest, BlockTooLarge, TooManySessions, TooManySpaces.
        """
        return lives.open_session(self._books, identity, name, now=now)

    def end_session(self, session: SessionId, cause: SessionEnd, *, now: float) -> None:
        """End a session: its leases are void, its queued transfers end, its running ones are abandoned; blocks stay.
        Raises NoSuchSession."""
        lives.end_session(self._books, session, cause, now=now)

    def attach(self, session: SessionId, rank: int, block_counts: tuple[int, ...]) -> None:
        """A rank has memory for `block_counts` blocks per group.
        Raises NoSuchSession, InvalidRequest, RankAttached, RankMismatch."""
        lives.attach(self._books, session, rank, block_counts)

    def detach(self, session: SessionId, rank: int) -> None:
        """A rank gives up its memory: no transfer begins until it is attached again; running copies go on.
        Raises NoSuchSession, NotAttached."""
        lives.detach(self._books, session, rank)

    def lookup(
        self,
        session: SessionId,
        generation: int,
        groups: Sequence[GroupKeys],
        options: LookupOptions,
        *,
        now: float,
    ) -> LookupResult:
        """Count the leading READY keys of each group, and hold them on request until load, release or expiry.

        A repeated hold for the same request replaces its lease. A session with an overdue copy sees only misses.

        Raises:
            NoSuchSession, StaleGeneration, InvalidRequest, TooManyKeys, TooManyLeases.
        """
        return lookups.lookup(self._books, session, generation, groups, options, now=now)

    def release(self, session: SessionId, leases: Sequence[LeaseId], *, now: float) -> int:
        """Give leases back; those that are gone or another session's are passed over. Returns how many were given back.
        Raises NoSuchSession."""
        return lookups.release(self._books, session, leases, now=now)

    def begin_store(
        self,
        session: SessionId,
        transfer: TransferId,
        generation: int,
        groups: Sequence[GroupBlocks],
        *,
        deadline_s: float,
        now: float,
    ) -> TransferPlan:
        """Take slots for the offered blocks that are new, as many leading ones as fit, and make their keys WRITING.

        Raises:
            NoSuchSession, StaleGeneration, InvalidRequest, TooManyKeys, DuplicateKey, DuplicateBlock, BlockOutOfRange,
            NotAttached, TransferIdReused, TooManyTransfers.
        """
        return stores.begin_store(
            self._books, session, transfer, generation, groups, deadline_s=deadline_s, now=now
        )

    def begin_load(
        self,
        session: SessionId,
        transfer: TransferId,
        generation: int,
        groups: Sequence[GroupBlocks],
        *,
        lease: LeaseId | None,
        deadline_s: float,
        now: float,
    ) -> TransferPlan:
        """Hold the blocks of these keys for a load; all must be READY. A lease named here ends with it.

        Raises:
            The same as `begin_store`, and KeyNotReady with the first key that is missing.
        """
        return loads.begin_load(
            self._books,
            session,
            transfer,
            generation,
            groups,
            lease=lease,
            deadline_s=deadline_s,
            now=now,
        )

    def start(self, session: SessionId, transfer: TransferId) -> bool:
        """The copy of a transfer is about to begin; False when the transfer has ended and must not be copied."""
        return loads.start(self._books, session, transfer)

    def is_wanted(self, session: SessionId, transfer: TransferId) -> bool:
        """Whether somebody waits for the result of a transfer: it has neither been abandoned nor ended."""
        return loads.is_wanted(self._books, session, transfer)

    def finish(
        self,
        session: SessionId,
        transfer: TransferId,
        failures: Sequence[BlockFailure],
        *,
        now: float,
    ) -> TransferState | None:
        """Every copy of a transfer has physically ended; returns its terminal state.

        A transfer that is unknown has ended before: it is counted and ignored, and the answer is None.
        """
        return loads.finish(self._books, session, transfer, failures, now=now)

    def cancel(
        self, session: SessionId, transfers: Sequence[TransferId], *, now: float
    ) -> tuple[int, int]:
        """End queued transfers and abandon running ones; unknown ids are passed over. Returns how many of each.
        Raises NoSuchSession."""
        return loads.cancel(self._books, session, transfers, now=now)

    def reset(self, space: SpaceId, *, now: float) -> ResetResult:
        """Raise the generation of a space: everything stored so far is unreachable when this returns. Raises NoSuchSpace."""
        return resets.reset(self._books, space, now=now)

    def reset_all(self, *, now: float) -> Mapping[SpaceId, ResetResult]:
        """Reset every space in one step."""
        return resets.reset_all(self._books, now=now)

    def drop_space(self, space: SpaceId, *, now: float) -> int:
        """Forget a space that has no session; returns how many blocks were dropped. Raises NoSuchSpace, SpaceInUse."""
        return resets.drop_space(self._books, space, now=now)

    def open_stream(self, session: SessionId) -> int:
        """A stream is open; its number makes every older stream of the session obsolete. Raises NoSuchSession."""
        return lives.open_stream(self._books, session)

    def close_stream(self, session: SessionId, stream: int, *, now: float) -> None:
        """A stream was lost; if it was the session's newest one, the grace time begins."""
        lives.close_stream(self._books, session, stream, now=now)

    def events(self, session: SessionId, after: int, count: int) -> Sequence[tuple[int, Event]]:
        """Up to `count` events with numbers above `after`. Raises NoSuchSession."""
        return self._books.session(session).outbox.after(after, count)

    def take_told(self) -> frozenset[SessionId]:
        """The sessions that got an event since the last call: whose readers are to be woken."""
        told = frozenset(self._books.told)
        self._books.told.clear()
        return told

    def acknowledge(self, session: SessionId, sequence: int) -> None:
        """Forget the events of a session up to `sequence`. Raises NoSuchSession, InvalidRequest."""
        lives.acknowledge(self._books, session, sequence)

    def announce_drain(self, *, now: float) -> None:
        """Tell every session that the daemon is shutting down."""
        for session in self._books.sessions.values():
            self._books.tell(session, Draining(), now)

    def expire(self, *, now: float) -> expiry.Expired:
        """Do what fell due, as much as one call may: leases expire, transfers become overdue, sessions without a stream
        end. What is left stays due; then `sweep`."""
        return expiry.expire(self._books, now=now)

    def next_deadline(self) -> float | None:
        """When `expire`, and after it `sweep`, should be called next."""
        return self._books.deadlines.next()

    def sweep(self) -> bool:
        """Give back one more batch of loose or dropped slots; True while some are left. Changes no answer."""
        return self._books.pool.sweep()

    @property
    def has_dirt(self) -> bool:
        """Whether something waits to be zeroed."""
        return zeroing.has_dirt(self._books)

    def begin_zeroing(self) -> Sequence[range] | None:
        """Take freed slots that are to be zeroed: bytes of the host pool, soon done; None if there is nothing."""
        return zeroing.begin_zeroing(self._books)

    def end_zeroing(self) -> None:
        """What was taken by `begin_zeroing` was zeroed: its slots are free like any others."""
        zeroing.end_zeroing(self._books)

    def space_of(self, session: SessionId) -> tuple[SpaceId, int]:
        """The space of a session and its current generation. Raises NoSuchSession."""
        space = self._books.spaces[self._books.session(session).space]
        return space.id, space.generation

    def is_drained(self, space: SpaceId, generation: int) -> bool:
        """Whether no transfer that began before `generation` is left in a space; true of a space that is gone."""
        found = self._books.spaces.get(space)
        return found is None or min(found.running, default=generation) >= generation

    def running_before(self, space: SpaceId, generation: int) -> tuple[int, int]:
        """How many stores and loads that began before `generation` are left in a space."""
        return resets.running_before(self._books, space, generation)

    def space_ids(self) -> tuple[SpaceId, ...]:
        """All spaces, oldest first."""
        return tuple(self._books.spaces)

    def recall(
        self, space: SpaceId, group: int, keys: Sequence[bytes], *, now: float
    ) -> Recollection:
        """What is known of these keys; to `explain` it needs no lock. Raises NoSuchSpace, InvalidRequest, TooManyKeys."""
        return recall(self._books, space, group, keys, now=now)

    def identity_of(self, space: SpaceId) -> Identity:
        """What a space is named by. Raises NoSuchSpace."""
        return self._books.space(space).identity

    def capture(self, *, now: float) -> Capture:
        """A picture of everything, for metrics and administration; to `develop` it needs no lock."""
        return capture(self._books, now=now)

    def snapshot(self, *, now: float) -> Snapshot:
        """The same, developed."""
        return self.capture(now=now).develop()

    def check(self) -> None:
        """Verify every invariant of the books by recounting. Raises BooksError at the first contradiction."""
        check(self._books)
