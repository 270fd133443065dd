"""A picture of the books at one moment, made under the lock and read without it: for metrics and for administration."""

from copy import deepcopy
from dataclasses import dataclass

from .books import Books, Counters
from .pool import Evictions
from .spaces import Space, SpaceCounters
from .transfers import Transfer
from .types import Identity, LeaseId, SessionId, SpaceId, TransferId, TransferKind, TransferState


@dataclass(frozen=True, slots=True)
class TableView:
    """Slots of one size, by state; the states add up to `slots`.

    `zeroing` are those that are being zeroed, and free ones that wait for it; stores may take the latter.
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


def snapshot(books: Books, *, now: float) -> Snapshot:
    """See `Ledger.snapshot`."""
    return Snapshot(
        extent_bytes=books.pool.extent_bytes,
        extents=books.pool.extent_count,
        unused_extents=books.pool.unused_count,
        tables=_tables(books),
        spaces=tuple(_space(space) for space in books.spaces.values()),
        sessions=_sessions(books, now),
        transfers=tuple(_transfer(transfer, now) for transfer in books.transfers.values()),
        leases=_leases(books, now),
        counters=deepcopy(books.counters),
        evictions=deepcopy(books.pool.evictions),
    )


def _tables(books: Books) -> tuple[TableView, ...]:
    writing: dict[int, int] = dict.fromkeys(books.pool.tables, 0)
    quarantined = dict(writing)
    for transfer in books.transfers.values():
        for part in transfer.parts:
            size, count = part.table.slot_bytes, len(part.slots)
            if transfer.kind is TransferKind.STORE:
                (quarantined if transfer.abandoned else writing)[size] += count
    wiped = dict.fromkeys(writing, 0)
    if books.pool.zeroing is not None:
        wiped[books.pool.zeroing.slot_bytes] = len(books.pool.zeroing.slots)
    views = []
    for size, table in books.pool.tables.items():
        retired = (index for index in table.backlog if index.retired and index.zeroed)
        dirty = table.free.dirty_count + sum(
            index.ready_count - index.held_count for index in retired
        )
        views.append(
            TableView(
                slot_bytes=size,
                extents=len(table.extents),
                slots=table.slot_count,
                free=table.free_count + table.retired_count - dirty,
                evictable=table.evictable_count,
                held=table.busy_count - writing[size] - quarantined[size] - wiped[size],
                writing=writing[size],
                quarantined=quarantined[size],
                zeroing=dirty + wiped[size],
            )
        )
    return tuple(views)


def _space(space: Space) -> SpaceView:
    counters = deepcopy(space.counters)
    counters.evicted_blocks = space.evicted_count
    return SpaceView(
        id=space.id,
        identity=space.identity,
        generation=space.generation,
        sessions=space.sessions,
        ready_blocks=space.ready_count,
        writing_blocks=space.writing_count,
        draining=tuple(space.draining),
        counters=counters,
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
            held_blocks=sum(books.leases[lease].block_count for lease in session.leases.values()),
            unacknowledged=len(session.outbox),
            reports=session.outbox.report_count,
            lost_events=session.outbox.lost_count,
        )
        for session in books.sessions.values()
    )


def _transfer(transfer: Transfer, now: float) -> TransferView:
    return TransferView(
        session=transfer.session,
        id=transfer.id,
        space=transfer.space,
        generation=transfer.generation,
        kind=transfer.kind,
        state=transfer.state,
        abandoned=transfer.abandoned,
        overdue=transfer.overdue,
        blocks=transfer.block_count,
        age_s=now - transfer.began_at,
    )


def _leases(books: Books, now: float) -> tuple[LeaseView, ...]:
    return tuple(
        LeaseView(
            id=lease.id,
            session=lease.session,
            request=lease.request,
            blocks=lease.block_count,
            age_s=now - lease.began_at,
            remaining_s=lease.expires_at - now,
        )
        for lease in books.leases.values()
    )
