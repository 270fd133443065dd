"""Begin of a store: which of the offered blocks are new, and where they go."""

from array import array
from collections.abc import Sequence
from itertools import chain

from .books import Books
from .index import BlockIndex
from .reclaiming import Claim
from .spaces import Space
from .transfers import StorePart, Transfer, group_copies
from .types import (
    GroupBlocks,
    SessionId,
    StoreStatus,
    TransferId,
    TransferKind,
    TransferPlan,
)
from .validation import check_transfer, fingerprint, repeated_transfer

# The value of an enumeration member costs more than the probe of a key.
_ACCEPTED = StoreStatus.ACCEPTED.value
_ALREADY_STORED = StoreStatus.ALREADY_STORED.value
_ALREADY_STORING = StoreStatus.ALREADY_STORING.value
_NO_SPACE = StoreStatus.NO_SPACE.value
_NOT_ADMITTED = StoreStatus.NOT_ADMITTED.value


def begin_store(
    books: Books,
    session_id: SessionId,
    transfer_id: TransferId,
    generation: int,
    groups: Sequence[GroupBlocks],
    *,
    deadline_s: float,
    now: float,
) -> TransferPlan:
    """See `Ledger.begin_store`."""
    session = books.session(session_id)
    repeated = repeated_transfer(session, transfer_id, TransferKind.STORE, groups)
    if repeated is not None:
        return repeated.plan
    space = books.space_at(session, generation)
    check_transfer(books, session, space, groups, deadline_s)

    statuses, claim = _classify(books, space, groups, now)
    copies, parts, start = [], [], 0
    for group, letters in zip(groups, statuses, strict=True):
        accepted = _accept(books, space, group, letters, claim)
        if accepted:
            slots = _take(books, space, group, len(accepted), claim, now)
            part = _begin(space, group, accepted, slots, start, letters)
            blocks = array("q", map(group.blocks.__getitem__, accepted))
            copies.append(group_copies(group.group, part, blocks))
            parts.append(part)
        start += len(group.keys)
    letters_sent = "".join(chain.from_iterable(statuses))
    if _NO_SPACE in letters_sent or _NOT_ADMITTED in letters_sent:
        _remember_refusals(books, space, groups, statuses, now)
    for status in StoreStatus:
        space.counters.offered[status.name] += letters_sent.count(status.value)
    plan = TransferPlan(session_id, transfer_id, TransferKind.STORE, tuple(copies), letters_sent)
    if parts:
        mark = fingerprint(TransferKind.STORE, groups)
        books.begin_transfer(
            session,
            Transfer(plan.repetition(), space.id, generation, mark, parts, now, now + deadline_s),
        )
    return plan


def _classify(
    books: Books, space: Space, groups: Sequence[GroupBlocks], now: float
) -> tuple[list[list[str]], Claim]:
    """One letter per offered block, ACCEPTED for all that may be; and the READY ones, which must not be evicted for it."""
    statuses: list[list[str]] = []
    protected: dict[int, set[int]] = {}
    for group in groups:
        index, table = space.indexes[group.group], space.tables[group.group]
        # Where not one slot can be had nothing is asked behind the first block that would need one: a full pool is
        # when there is least time, and what lies behind a gap lengthens no prefix.
        keys = group.keys
        if not books.pool.room(table, 1, Claim({})):
            keys = keys[: index.present_count(keys, 0)]
        slots = index.probe(keys)
        letters = _letters(index, keys, slots)
        _apply_admission(books, index.serial, keys, letters)
        ready = [slot for slot in slots if slot is not None]
        table.touch(ready, now, used=False)
        protected.setdefault(table.slot_bytes, set()).update(ready)
        statuses.append(letters + [_NO_SPACE] * (len(group.keys) - len(keys)))
    return statuses, Claim(protected, len(groups))


def _letters(index: BlockIndex, keys: Sequence[bytes], slots: Sequence[int | None]) -> list[str]:
    writing = index.writing.among(keys)
    return [
        _ALREADY_STORED if slot is not None else _ALREADY_STORING if key in writing else _ACCEPTED
        for key, slot in zip(keys, slots, strict=True)
    ]


def _apply_admission(books: Books, serial: int, keys: Sequence[bytes], letters: list[str]) -> None:
    if books.admission.admits_all:
        return
    positions = [at for at, letter in enumerate(letters) if letter == _ACCEPTED]
    admitted = books.admission.admits([hash((serial, keys[at])) for at in positions])
    for at, yes in zip(positions, admitted, strict=True):
        if not yes:
            letters[at] = _NOT_ADMITTED


def _accept(
    books: Books, space: Space, group: GroupBlocks, letters: list[str], claim: Claim
) -> list[int]:
    """Which blocks get a slot: of those that may the leading ones that fit; marks the others NO_SPACE."""
    positions = [at for at, letter in enumerate(letters) if letter == _ACCEPTED]
    if not positions:
        return positions
    count = books.pool.room(space.tables[group.group], len(positions), claim)
    for at in positions[count:]:
        letters[at] = _NO_SPACE
    return positions[:count]


def _take(
    books: Books, space: Space, group: GroupBlocks, count: int, claim: Claim, now: float
) -> Sequence[int]:
    index, table = space.indexes[group.group], space.tables[group.group]
    slots = array("q", books.pool.take(table, count, claim, now))
    if index.zeroed:
        table.stain(slots)
    return slots


def _begin(
    space: Space,
    group: GroupBlocks,
    accepted: Sequence[int],
    slots: Sequence[int],
    start: int,
    letters: Sequence[str],
) -> StorePart:
    """Make the keys of accepted blocks WRITING; `start` blocks of other groups were offered before those of this one."""
    index = space.indexes[group.group]
    keys = map(group.keys.__getitem__, accepted)
    writing = index.begin(dict(zip(keys, slots, strict=True)))
    others = _ALREADY_STORED in letters or _ALREADY_STORING in letters
    return StorePart(
        index,
        space.tables[group.group],
        slots,
        _positions(start, accepted),
        writing,
        group.keys if others else (),
    )


def _positions(start: int, accepted: Sequence[int]) -> Sequence[int]:
    """Of accepted blocks in the request; a range, if it can be, has no numbers that have to be freed one by one."""
    first, last = accepted[0], accepted[-1]
    if last - first + 1 == len(accepted):
        return range(start + first, start + last + 1)
    return [start + at for at in accepted]


def _remember_refusals(
    books: Books,
    space: Space,
    groups: Sequence[GroupBlocks],
    statuses: Sequence[Sequence[str]],
    now: float,
) -> None:
    for group, letters in zip(groups, statuses, strict=True):
        serial = space.indexes[group.group].serial
        books.pool.history.refuse(serial, group.keys, letters, now)
