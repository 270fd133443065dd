"""Begin of a load, and how any transfer starts, ends or is cancelled."""

from array import array
from collections.abc import Sequence

from .books import Books
from .errors import KeyNotReady
from .sessions import Session
from .spaces import Space
from .transfers import Part, StorePart, Transfer, group_copies
from .types import (
    BlockFailure,
    DropReason,
    Fate,
    GroupBlocks,
    LeaseId,
    SessionId,
    TransferId,
    TransferKind,
    TransferPlan,
    TransferState,
)
from .validation import check_transfer, fingerprint, repeated_transfer


def begin_load(
    books: Books,
    session_id: SessionId,
    transfer_id: TransferId,
    generation: int,
    groups: Sequence[GroupBlocks],
    *,
    lease: LeaseId | None,
    deadline_s: float,
    now: float,
) -> TransferPlan:
    """See `Ledger.begin_load`."""
    session = books.session(session_id)
    repeated = repeated_transfer(session, transfer_id, TransferKind.LOAD, groups)
    if repeated is not None:
        return repeated.plan
    space = books.space_at(session, generation)
    check_transfer(books, session, space, groups, deadline_s)
    parts = _find(space, groups)
    copies = tuple(
        group_copies(group.group, part, group.blocks)
        for group, part in zip(groups, parts, strict=True)
    )
    for part in parts:
        part.table.hold(part.slots, now)
    if lease is not None:
        _void_own(books, session, lease, now)
        books.tighten(now)
    mark = fingerprint(TransferKind.LOAD, groups)
    plan = TransferPlan(session_id, transfer_id, TransferKind.LOAD, copies)
    books.begin_transfer(
        session,
        Transfer(plan.repetition(), space.id, generation, mark, parts, now, now + deadline_s),
    )
    return plan


def _find(space: Space, groups: Sequence[GroupBlocks]) -> list[Part]:
    parts, start = [], 0
    for group in groups:
        index = space.indexes[group.group]
        slots = index.ready_prefix(group.keys)
        if len(slots) < len(group.keys):
            state = index.state(group.keys[len(slots)]).name
            raise KeyNotReady(
                f"key {len(slots)} of group {group.group} is {state}",
                group=group.group,
                index=len(slots),
                state=state,
            )
        positions = range(start, start + len(slots))
        parts.append(Part(index, space.tables[group.group], array("q", slots), positions))
        start += len(slots)
    return parts


def _void_own(books: Books, session: Session, lease: LeaseId, now: float) -> None:
    found = books.leases.get(lease)
    if found is not None and found.session == session.id:
        books.void_lease(lease, now)


def start(books: Books, session_id: SessionId, transfer_id: TransferId) -> bool:
    """See `Ledger.start`."""
    transfer = books.transfers.get((session_id, transfer_id))
    if transfer is None:
        return False
    transfer.state = TransferState.RUNNING
    return True


def is_wanted(books: Books, session_id: SessionId, transfer_id: TransferId) -> bool:
    """See `Ledger.is_wanted`."""
    transfer = books.transfers.get((session_id, transfer_id))
    return transfer is not None and not transfer.abandoned


def finish(
    books: Books,
    session_id: SessionId,
    transfer_id: TransferId,
    failures: Sequence[BlockFailure],
    *,
    now: float,
) -> TransferState | None:
    """See `Ledger.finish`."""
    transfer = books.transfers.get((session_id, transfer_id))
    if transfer is None:
        books.counters.late_completions += 1
        return None
    if transfer.abandoned:
        books.release_slots(transfer, now)
        books.end_transfer(transfer, TransferState.ABANDONED, (), now)
        books.tighten(now)
        return TransferState.ABANDONED
    space = books.spaces[transfer.space]
    failed = {failure.position for failure in failures}
    for part in transfer.parts:
        if isinstance(part, StorePart):
            _settle_store(books, space, part, failed, now)
        else:
            _settle_load(books, space, part, failed, now)
    state = TransferState.FAILED if failures else TransferState.DONE
    books.end_transfer(transfer, state, failures, now)
    return state


def cancel(
    books: Books, session_id: SessionId, transfers: Sequence[TransferId], *, now: float
) -> tuple[int, int]:
    """See `Ledger.cancel`."""
    session = books.session(session_id)
    ended = abandoned = 0
    for transfer_id in transfers:
        transfer = session.transfers.get(transfer_id)
        if transfer is None or transfer.abandoned:
            continue
        books.abandon(transfer, now)
        if transfer.state is TransferState.ABANDONED:
            ended += 1
        else:
            abandoned += 1
    books.tighten(now)
    return ended, abandoned


def _settle_store(
    books: Books, space: Space, part: StorePart, failed: set[int], now: float
) -> None:
    stored = part.writing.blocks
    if failed:
        blocks = zip(stored.items(), part.positions, strict=True)
        bad = dict(block for block, position in blocks if position in failed)
        part.index.abort(part.writing, bad)
        part.table.give_back(list(bad.values()))
        space.counters.unstored[TransferState.FAILED.name] += len(bad)
        books.pool.history.add(part.index.serial, Fate.STORE_FAILED, bad, now)
        stored = {key: slot for key, slot in stored.items() if key not in bad}
    part.index.publish(part.writing, stored)
    books.pool.history.add(part.index.serial, Fate.STORED, stored, now)
    part.table.settle(stored, part.index, now)
    space.counters.stored_blocks += len(stored)
    if part.named:
        # What was there before is the head of what is new, as a rule, and must not be the colder for it.
        named = [slot for slot in part.index.probe(part.named) if slot is not None]
        part.table.touch(named, now, used=False)


def _settle_load(books: Books, space: Space, part: Part, failed: set[int], now: float) -> None:
    # A block that could not be read is dropped: offering it again would fail the same request for ever.
    blocks = zip(part.slots, part.positions, strict=True)
    bad = [slot for slot, position in blocks if position in failed] if failed else []
    if bad:
        dropped = part.table.orphan(bad)
        books.count_dropped(space, DropReason.FAILED_LOAD, len(dropped))
        books.pool.history.add(part.index.serial, Fate.LOAD_FAILED, dropped, now)
    part.table.unhold(part.slots, now)
    space.counters.loaded_blocks += len(part.slots) - len(bad)
