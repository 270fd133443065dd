"""Sessions: how they open, attach their ranks, keep a stream, and end."""

from collections.abc import Sequence
from itertools import islice

from .books import Books
from .deadlines import GraceDue
from .errors import (
    InvalidRequest,
    NotAttached,
    RankAttached,
    RankMismatch,
    TooManySessions,
    TooManySpaces,
)
from .index import BlockIndex
from .outbox import Outbox
from .sessions import Session, Stream
from .spaces import Space
from .types import Identity, SessionEnd, SessionId, SpaceId

MAX_KEY_BYTES = 64


def open_session(books: Books, identity: Identity, name: str, *, now: float) -> SessionId:
    """See `Ledger.open_session`."""
    _check_identity(identity)
    if len(books.sessions) >= books.limits.max_sessions:
        raise TooManySessions(
            f"{len(books.sessions)} sessions are open, the limit", limit=books.limits.max_sessions
        )
    space = _space_for(books, identity)
    grace_deadline = now + books.limits.grace_s
    session = Session(
        books.serials.next_session(),
        name,
        space.id,
        now,
        Outbox(books.limits.max_events),
        Stream(grace_deadline),
    )
    books.sessions[session.id] = session
    space.sessions += 1
    books.counters.sessions_opened += 1
    books.deadlines.add(grace_deadline, GraceDue(session.id))
    return session.id


def attach(books: Books, session_id: SessionId, rank: int, block_counts: tuple[int, ...]) -> None:
    """See `Ledger.attach`."""
    session = books.session(session_id)
    layout = books.spaces[session.space].identity.layout
    if not 0 <= rank < layout.world_size:
        raise InvalidRequest(
            f"rank {rank} is not below the world size {layout.world_size}", field="rank"
        )
    if len(block_counts) != len(layout.groups) or min(block_counts) < 1:
        raise InvalidRequest(
            f"rank {rank} gives block counts {block_counts} for {len(layout.groups)} groups",
            field="groups",
        )
    if rank in session.block_counts:
        raise RankAttached(f"rank {rank} of session {session_id} is attached already", rank=rank)
    for other, counts in session.block_counts.items():
        if counts != block_counts:
            raise RankMismatch(
                f"rank {rank} has block counts {block_counts}, rank {other} has {counts}",
                rank=rank,
            )
    session.block_counts[rank] = block_counts


def detach(books: Books, session_id: SessionId, rank: int) -> None:
    """See `Ledger.detach`."""
    session = books.session(session_id)
    if rank not in session.block_counts:
        raise NotAttached(f"rank {rank} of session {session_id} is not attached", ranks=[rank])
    del session.block_counts[rank]


def open_stream(books: Books, session_id: SessionId) -> int:
    """See `Ledger.open_stream`."""
    session = books.session(session_id)
    session.stream.number += 1
    session.stream.grace_deadline = None
    books.deadlines.drop(GraceDue(session_id))
    return session.stream.number


def close_stream(books: Books, session_id: SessionId, stream: int, *, now: float) -> None:
    """See `Ledger.close_stream`."""
    session = books.sessions.get(session_id)
    if (
        session is None
        or session.stream.number != stream
        or session.stream.grace_deadline is not None
    ):
        return
    session.stream.grace_deadline = now + books.limits.grace_s
    books.deadlines.add(session.stream.grace_deadline, GraceDue(session_id))


def acknowledge(books: Books, session_id: SessionId, sequence: int) -> None:
    """See `Ledger.acknowledge`."""
    session = books.session(session_id)
    if sequence > session.outbox.last:
        raise InvalidRequest(
            f"event {sequence} was never sent, the last one is {session.outbox.last}",
            field="sequence",
        )
    reports = session.outbox.acknowledge(sequence)
    for transfer in list(islice(session.settled, reports)):
        del session.settled[transfer]
        session.floor = max(session.floor, transfer)


def end_session(books: Books, session_id: SessionId, cause: SessionEnd, *, now: float) -> None:
    """See `Ledger.end_session`."""
    session = books.session(session_id)
    for lease in list(session.leases.values()):
        books.void_lease(lease, now)
    for transfer in list(session.transfers.values()):
        books.abandon(transfer, now)
    books.tighten(now)
    books.deadlines.drop(GraceDue(session_id))
    del books.sessions[session_id]
    books.spaces[session.space].sessions -= 1
    books.counters.session_ends[cause.value] += 1


def _check_identity(identity: Identity) -> None:
    layout, scheme = identity.layout, identity.key_scheme
    if not identity.model:
        raise InvalidRequest("the identity names no model", field="model")
    if layout.world_size < 1 or layout.block_tokens < 1:
        raise InvalidRequest("world size and block tokens are at least one", field="layout")
    if not layout.groups or any(
        min(group.segment_bytes, default=0) < 1 for group in layout.groups
    ):
        raise InvalidRequest(
            "a layout has groups, and each group has segments of one byte or more", field="groups"
        )
    if not 1 <= scheme.key_bytes <= MAX_KEY_BYTES:
        raise InvalidRequest(
            f"keys of {scheme.key_bytes} bytes, 1 to {MAX_KEY_BYTES} are possible",
            field="key_bytes",
        )


def _space_for(books: Books, identity: Identity) -> Space:
    known = books.space_ids.get(identity)
    if known is not None:
        return books.spaces[known]
    layout = identity.layout
    sizes = [group.slot_bytes(layout.world_size) for group in layout.groups]
    for size in sizes:
        books.pool.check_fits(size)
    _make_room(books, identity.tenant)
    tables = [books.pool.table(size) for size in sizes]
    zeroed = books.pool.zeroes(identity.tenant)
    indexes = [
        BlockIndex(
            books.serials.next(),
            books.pool.slot_limit(size),
            group_count=len(sizes),
            zeroed=zeroed,
        )
        for size in sizes
    ]
    space = Space(SpaceId(books.serials.next()), identity, indexes, tables)
    books.spaces[space.id] = space
    books.space_ids[identity] = space.id
    books.counters.accounts.open(identity)
    return space


def _make_room(books: Books, tenant: str) -> None:
    """Forget an empty space if the tenant, or the daemon, has as many as it may."""
    limits = books.limits
    own = [space for space in books.spaces.values() if space.identity.tenant == tenant]
    if limits.max_tenant_spaces is not None and len(own) >= limits.max_tenant_spaces:
        said = f"tenant {tenant!r} has {len(own)} spaces in use, its limit; see max_tenant_spaces"
        _forget_empty(books, own, said)
    if len(books.spaces) >= limits.max_spaces:
        everybodys = list(books.spaces.values())
        _forget_empty(books, everybodys, f"{len(everybodys)} spaces are in use, the limit")


def _forget_empty(books: Books, spaces: Sequence[Space], complaint: str) -> None:
    for space in spaces:
        if not space.sessions and not space.ready_count and not space.running:
            books.forget_space(space)
            return
    raise TooManySpaces(complaint, limit=len(spaces))
