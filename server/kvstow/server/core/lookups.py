"""Lookup and release: what of a prefix is there, and holds on it that last until the load."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from .books import Books
from .deadlines import LeaseDue
from .errors import InvalidRequest, TooManyLeases
from .index import BlockIndex
from .sessions import Session
from .transfers import Held, Lease
from .types import GroupHits, GroupKeys, Hold, KeyState, LeaseId, LookupResult, SessionId
from .validation import check_groups


@dataclass(frozen=True, slots=True)
class LookupOptions:
    """How a lookup is made.

    Args:
        request: the engine's name of the request; needed with a hold.
        hold: what to put under a lease.
        ttl_s: life of the lease in seconds.
        touch: the hits count as used; ignored with a hold, which always does.
        want_states: answer the state of every key.
        blind: find nothing, because what is found could not be loaded now.
    """

    request: str = ""
    hold: Hold = Hold.NONE
    ttl_s: float = 30.0
    touch: bool = False
    want_states: bool = False
    blind: bool = False


def lookup(
    books: Books,
    session_id: SessionId,
    generation: int,
    groups: Sequence[GroupKeys],
    options: LookupOptions,
    *,
    now: float,
) -> LookupResult:
    """See `Ledger.lookup`."""
    session = books.session(session_id)
    space = books.space_at(session, generation)
    check_groups(space, groups, books.limits.max_keys)
    if options.hold is not Hold.NONE:
        _check_hold(books, session, options)
        if options.request in session.leases:
            # Its holds are given back below: of what is held again nothing moves in the order of eviction.
            books.void_lease(session.leases[options.request], now)
    blind = options.blind or session.overdue_count > 0
    hits, found = [], []
    for group in groups:
        index, table = space.indexes[group.group], space.tables[group.group]
        hit, slots = _miss(group, options) if blind else _probe(index, group, options)
        hits.append(hit)
        if slots:
            # An array of numbers, other than a list, is nothing that the garbage collector walks.
            found.append(Held(table, index, array("q", slots)))
        space.counters.hit_blocks += hit.hit_count
        space.counters.pending_blocks += hit.pending_count
        space.counters.missed_blocks += len(group.keys) - hit.hit_count - hit.pending_count
    space.counters.lookups += 1
    books.counters.lookup_keys.record(sum(len(group.keys) for group in groups))
    if options.hold is not Hold.NONE:
        lease = _lease(books, session, options, found, now) if found else None
        books.tighten(now)
        if lease is not None:
            return LookupResult(generation, tuple(hits), lease.id, lease.expires_at)
    elif options.touch:
        _touch(found, now)
    return LookupResult(generation, tuple(hits), None, None)


def release(books: Books, session_id: SessionId, leases: Sequence[LeaseId], *, now: float) -> int:
    """See `Ledger.release`."""
    books.session(session_id)
    count = 0
    for lease in leases:
        found = books.leases.get(lease)
        if found is not None and found.session == session_id:
            books.void_lease(lease, now)
            count += 1
    books.tighten(now)
    return count


def _check_hold(books: Books, session: Session, options: LookupOptions) -> None:
    if not options.request:
        raise InvalidRequest("a lookup with a hold needs the name of its request", field="request")
    if not 0 < options.ttl_s <= books.limits.max_lease_s:
        raise InvalidRequest(
            f"lease of {options.ttl_s} s is not between 0 and {books.limits.max_lease_s} s",
            field="lease_ttl_s",
        )
    if options.request not in session.leases and len(session.leases) >= books.limits.max_leases:
        raise TooManyLeases(
            f"session {session.id} has {len(session.leases)} leases, the limit",
            limit=books.limits.max_leases,
        )


def _probe(
    index: BlockIndex, group: GroupKeys, options: LookupOptions
) -> tuple[GroupHits, Sequence[int]]:
    if options.hold is not Hold.READY and not options.want_states:
        slots = index.ready_prefix(group.keys)
        return GroupHits(len(slots), index.present_count(group.keys, len(slots))), slots
    probed = index.probe(group.keys)
    hit_count = probed.index(None) if None in probed else len(probed)
    states = ""
    if options.want_states:
        states = "".join(index.state(key).value for key in group.keys)
    ready = [slot for slot in probed if slot is not None]
    slots = ready if options.hold is Hold.READY else ready[:hit_count]
    return GroupHits(hit_count, index.present_count(group.keys, hit_count), states), slots


def _miss(group: GroupKeys, options: LookupOptions) -> tuple[GroupHits, Sequence[int]]:
    return GroupHits(
        0, 0, KeyState.ABSENT.value * len(group.keys) if options.want_states else ""
    ), ()


def _touch(found: Sequence[Held], now: float) -> None:
    for held in found:
        held.table.touch(held.slots, now, used=True)


def _lease(
    books: Books,
    session: Session,
    options: LookupOptions,
    found: Sequence[Held],
    now: float,
) -> Lease:
    for held in found:
        held.table.hold(held.slots, now)
    lease = Lease(
        LeaseId(books.serials.next()),
        session.id,
        session.space,
        options.request,
        found,
        now,
        now + options.ttl_s,
    )
    books.leases[lease.id] = lease
    session.leases[options.request] = lease.id
    books.deadlines.add(lease.expires_at, LeaseDue(lease.id))
    return lease
