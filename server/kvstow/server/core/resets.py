"""Reset and drop: a generation ends at once, whatever is running, and no memory is freed under a copy."""

from .books import Books
from .errors import SpaceInUse
from .events import SpaceReset
from .history import Ended
from .index import BlockIndex
from .sessions import Session
from .spaces import Space
from .types import DropReason, ResetResult, SpaceId, TransferKind, TransferState


def reset(
    books: Books, space_id: SpaceId, *, now: float, reason: DropReason = DropReason.RESET
) -> ResetResult:
    """See `Ledger.reset`."""
    result = _reset(books, books.space(space_id), now, reason)
    books.tighten(now)
    return result


def reset_all(books: Books, *, now: float) -> dict[SpaceId, ResetResult]:
    """See `Ledger.reset_all`."""
    results = {
        space.id: _reset(books, space, now, DropReason.RESET) for space in books.spaces.values()
    }
    books.tighten(now)  # once for all of them, or it would take as many times as long
    return results


def _reset(books: Books, space: Space, now: float, reason: DropReason) -> ResetResult:
    dropped = space.ready_count
    _retire(books, space, now)
    ended = _abandon_all(books, space, now)
    for session in _sessions(books, space):
        for lease in list(session.leases.values()):
            books.void_lease(lease, now)
    books.count_dropped(space, reason, dropped)
    space.counters.resets += 1
    space.generation += 1
    space.draining.append(space.generation)
    books.tell_space(space, SpaceReset(space.generation), now)
    books.tell_drained(space, space.drained(), now)
    stores, loads = running_before(books, space.id, space.generation)
    return ResetResult(space.generation, dropped, stores, loads, ended)


def drop_space(books: Books, space_id: SpaceId, *, now: float) -> int:
    """See `Ledger.drop_space`."""
    space = books.space(space_id)
    if space.sessions:
        raise SpaceInUse(
            f"space {space_id} has {space.sessions} sessions", sessions=space.sessions
        )
    dropped = reset(books, space_id, now=now, reason=DropReason.DROP_SPACE).dropped_count
    books.forget_space(space)
    return dropped


def running_before(books: Books, space_id: SpaceId, generation: int) -> tuple[int, int]:
    """See `Ledger.running_before`."""
    kinds = [
        transfer.kind
        for transfer in books.transfers.values()
        if transfer.space == space_id and transfer.generation < generation
    ]
    return kinds.count(TransferKind.STORE), kinds.count(TransferKind.LOAD)


def _abandon_all(books: Books, space: Space, now: float) -> int:
    """Abandon every transfer of the space; returns how many ended. Those of ended sessions are abandoned already."""
    ended = 0
    for session in _sessions(books, space):
        for transfer in list(session.transfers.values()):
            books.abandon(transfer, now)
            ended += transfer.state is TransferState.ABANDONED
    return ended


def _sessions(books: Books, space: Space) -> list[Session]:
    return [session for session in books.sessions.values() if session.space == space.id]


def _retire(books: Books, space: Space, now: float) -> None:
    serials = tuple(index.serial for index in space.indexes)
    space.ended.append(Ended(space.generation, now, serials))
    fresh = []
    for index, table in zip(space.indexes, space.tables, strict=True):
        space.counters.evicted_blocks += index.evicted_count
        index.retired = True
        if index.ready_count:
            table.backlog.setdefault(index, [])
        limit, groups = books.pool.slot_limit(table.slot_bytes), len(space.tables)
        serial = books.serials.next()
        fresh.append(BlockIndex(serial, limit, group_count=groups, zeroed=index.zeroed))
    space.indexes = fresh
