"""A picture of the books at one moment, for metrics and for administration.

There may be thousands of leases and transfers. Under the lock only what changes is copied, and references to what does not;
views are made of them afterwards.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .books import Books, Counters
from .evictions import Evictions
from .slots import SlotTable
from .spaces import Space, SpaceCounters
from .transfers import Lease, Part
from .types import (
    Identity,
    LeaseId,
    SessionId,
    SpaceId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)


@dataclass(frozen=True, slots=True)
class TableView:
    """Slots of one size, by state; the states add up to `slots`.

    `held` are also those that an ended store is still to give back. `zeroing` are those that are being zeroed, and free ones
    that wait for it; stores may take the latter.
    """

    slot_bytes: int
    extents: int
    slots: int
    free: int
    evictable: int
    held: int
    writing: int
    quarantined: int
    zeroing: int


@dataclass(frozen=True, slots=True)
class SpaceView:
    """One space; `counters` is a copy."""

    id: SpaceId
    identity: Identity
    generation: int
    sessions: int
    ready_blocks: int
    writing_blocks: int
    draining: tuple[int, ...]
    counters: SpaceCounters


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session; `unacknowledged` events, of which `reports` are terminal reports; `lost_events` ever."""

    id: SessionId
    name: str
    space: SpaceId
    age_s: float
    ranks: tuple[int, ...]
    streaming: bool
    transfers: int
    leases: int
    held_blocks: int
    unacknowledged: int
    reports: int
    lost_events: int


@dataclass(frozen=True, slots=True)
class TransferView:
    """One transfer whose copy has not ended."""

    session: SessionId
    id: TransferId
    space: SpaceId
    generation: int
    kind: TransferKind
    state: TransferState
    abandoned: bool
    overdue: bool
    blocks: int
    age_s: float


@dataclass(frozen=True, slots=True)
class LeaseView:
    """One lease."""

    id: LeaseId
    session: SessionId
    request: str
    blocks: int
    age_s: float
    remaining_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one moment; `counters` and `evictions` are copies."""

    extent_bytes: int
    extents: int
    unused_extents: int
    tables: tuple[TableView, ...]
    spaces: tuple[SpaceView, ...]
    sessions: tuple[SessionView, ...]
    transfers: tuple[TransferView, ...]
    leases: tuple[LeaseView, ...]
    counters: Counters
    evictions: Evictions


_TransferFacts = tuple[
    TransferPlan, SpaceId, int, TransferState, bool, bool, Sequence[Part], float
]
"""Of a transfer: its plan, space, generation, state, whether it is abandoned and overdue, its parts, when it began.

A plain tuple: a class of its own would take three times as long to make, and is made under the lock for every transfer.
"""


@dataclass(frozen=True, slots=True)
class Capture:
    """The books at one moment, taken under the lock; to `develop` it needs none.

    Args:
        snapshot: what is known already: of tables, sessions, transfers and leases not everything.
        transfers, leases: all of them; parts and leases never change.
        now: when it was taken.
    """

    snapshot: Snapshot
    transfers: Sequence[_TransferFacts]
    leases: Sequence[Lease]
    now: float

    def develop(self) -> Snapshot:
        """The finished picture."""
        filled, held = _filled(self.transfers), Counter[SessionId]()
        for lease in self.leases:
            held[lease.session] += lease.block_count
        return replace(
            self.snapshot,
            tables=tuple(_told_apart(table, filled) for table in self.snapshot.tables),
            sessions=tuple(
                replace(session, held_blocks=held[session.id])
                for session in self.snapshot.sessions
            ),
            transfers=tuple(_transfer(transfer, self.now) for transfer in self.transfers),
            leases=tuple(_lease(lease, self.now) for lease in self.leases),
        )


def capture(books: Books, *, now: float) -> Capture:
    """See `Ledger.capture`."""
    known = Snapshot(
        extent_bytes=books.pool.extent_bytes,
        extents=books.pool.extent_count,
        unused_extents=books.pool.unused_count,
        tables=tuple(_table(books, table) for table in books.pool.tables.values()),
        spaces=tuple(_space(space) for space in books.spaces.values()),
        sessions=_sessions(books, now),
        transfers=(),
        leases=(),
        counters=books.counters.copied(),
        evictions=books.pool.evictions.copied(),
    )
    transfers = [
        (
            each.plan,
            each.space,
            each.generation,
            each.state,
            each.abandoned,
            each.overdue,
            each.parts,
            each.began_at,
        )
        for each in books.transfers.values()
    ]
    return Capture(known, transfers, tuple(books.leases.values()), now)


def _table(books: Books, table: SlotTable) -> TableView:
    """All slots that stores fill count as held."""
    being_zeroed = len(books.pool.being_zeroed(table.slot_bytes))
    retired = (index for index in table.backlog if index.retired and index.zeroed)
    dirty = table.free.dirty_count + sum(index.ready_count - index.held_count for index in retired)
    return TableView(
        slot_bytes=table.slot_bytes,
        extents=len(table.extents),
        slots=table.slot_count,
        free=table.free_count + table.retired_count - dirty,
        evictable=table.evictable_count,
        held=table.busy_count - being_zeroed,
        writing=0,
        quarantined=0,
        zeroing=dirty + being_zeroed,
    )


def _filled(transfers: Sequence[_TransferFacts]) -> Counter[tuple[int, bool]]:
    """Slots that stores fill, by their size and whether the store is abandoned."""
    filled = Counter[tuple[int, bool]]()
    for plan, _, _, _, abandoned, _, parts, _ in transfers:
        if plan.kind is TransferKind.STORE:
            for part in parts:
                filled[part.table.slot_bytes, abandoned] += len(part.slots)
    return filled


def _told_apart(table: TableView, filled: Counter[tuple[int, bool]]) -> TableView:
    writing, quarantined = filled[table.slot_bytes, False], filled[table.slot_bytes, True]
    held = table.held - writing - quarantined
    return replace(table, held=held, writing=writing, quarantined=quarantined)


def _space(space: Space) -> SpaceView:
    return SpaceView(
        id=space.id,
        identity=space.identity,
        generation=space.generation,
        sessions=space.sessions,
        ready_blocks=space.ready_count,
        writing_blocks=space.writing_count,
        draining=tuple(space.draining),
        counters=space.counted(),
    )


def _sessions(books: Books, now: float) -> tuple[SessionView, ...]:
    return tuple(
        SessionView(
            id=session.id,
            name=session.name,
            space=session.space,
            age_s=now - session.opened_at,
            ranks=tuple(sorted(session.block_counts)),
            streaming=session.stream.grace_deadline is None,
            transfers=len(session.transfers),
            leases=len(session.leases),
            held_blocks=0,
            unacknowledged=len(session.outbox),
            reports=session.outbox.report_count,
            lost_events=session.outbox.lost_count,
        )
        for session in books.sessions.values()
    )


def _transfer(facts: _TransferFacts, now: float) -> TransferView:
    plan, space, generation, state, abandoned, overdue, parts, began_at = facts
    return TransferView(
        session=plan.session,
        id=plan.transfer,
        space=space,
        generation=generation,
        kind=plan.kind,
        state=state,
        abandoned=abandoned,
        overdue=overdue,
        blocks=sum(len(part.slots) for part in parts),
        age_s=now - began_at,
    )


def _lease(lease: Lease, now: float) -> LeaseView:
    return LeaseView(
        id=lease.id,
        session=lease.session,
        request=lease.request,
        blocks=lease.block_count,
        age_s=now - lease.began_at,
        remaining_s=lease.expires_at - now,
    )
