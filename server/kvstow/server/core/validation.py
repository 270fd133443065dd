"""What every request with keys must satisfy before the books are touched."""

from collections.abc import Sequence

from .books import Books
from .errors import (
    BlockOutOfRange,
    DuplicateBlock,
    DuplicateKey,
    InvalidRequest,
    NotAttached,
    TooManyKeys,
    TooManyTransfers,
    TransferIdReused,
)
from .sessions import Session
from .spaces import Space
from .transfers import Transfer
from .types import GroupBlocks, GroupKeys, TransferId, TransferKind


def check_groups(space: Space, groups: Sequence[GroupKeys | GroupBlocks], max_keys: int) -> None:
    """Each group exists and is named once, there is at least one key, and there are not too many.

    Raises:
        InvalidRequest: a group is unknown or named twice, or there is no key.
        TooManyKeys: more keys than `max_keys`.
    """
    numbers = [group.group for group in groups]
    for number in numbers:
        if not 0 <= number < len(space.indexes):
            raise InvalidRequest(
                f"group {number} does not exist, the layout has {len(space.indexes)} groups",
                field="group",
            )
    if len(set(numbers)) != len(numbers):
        raise InvalidRequest("a group is named twice; send all its keys together", field="group")
    count = sum(len(group.keys) for group in groups)
    if not count:
        raise InvalidRequest("the request names no key", field="keys")
    if count > max_keys:
        raise TooManyKeys(
            f"{count} keys in one call, the limit is {max_keys}", count=count, limit=max_keys
        )


def check_transfer(
    books: Books, session: Session, space: Space, groups: Sequence[GroupBlocks], deadline_s: float
) -> None:
    """The blocks of a transfer lie in attached memory, none stands twice, and the session may begin one more.

    Raises:
        InvalidRequest, TooManyKeys, DuplicateKey, DuplicateBlock, BlockOutOfRange, NotAttached, TooManyTransfers.
    """
    check_groups(space, groups, books.limits.max_keys)
    if not 0 < deadline_s <= books.limits.max_deadline_s:
        raise InvalidRequest(
            f"deadline of {deadline_s} s is not between 0 and {books.limits.max_deadline_s} s",
            field="deadline_s",
        )
    _check_attached(session, space)
    for group in groups:
        _check_blocks(session, group)
    count = len(session.transfers) + len(session.settled)
    if count >= books.limits.max_transfers:
        raise TooManyTransfers(
            f"session {session.id} has {count} transfers unfinished or unacknowledged, the limit",
            limit=books.limits.max_transfers,
        )


def fingerprint(kind: TransferKind, groups: Sequence[GroupBlocks]) -> int:
    """A number that differs between different requests, but for chance."""
    return hash(
        (kind, *((group.group, tuple(group.keys), tuple(group.blocks)) for group in groups))
    )


def repeated_transfer(
    session: Session, transfer: TransferId, kind: TransferKind, groups: Sequence[GroupBlocks]
) -> Transfer | None:
    """The transfer that this call begins again, None if it is new.

    Raises:
        TransferIdReused: the id belongs to another request, or lies at or below ids already forgotten.
    """
    found = session.transfers.get(transfer) or session.settled.get(transfer)
    if found is not None and found.fingerprint == fingerprint(kind, groups):
        return found
    if found is not None:
        raise TransferIdReused(
            f"transfer {transfer} of session {session.id} was used for another request",
            floor=session.floor,
        )
    if transfer <= session.floor:
        raise TransferIdReused(
            f"transfer {transfer} of session {session.id} comes after transfer {session.floor} was acknowledged",
            floor=session.floor,
        )
    return None


def _check_attached(session: Session, space: Space) -> None:
    world_size = space.identity.layout.world_size
    if len(session.block_counts) < world_size:
        missing = [rank for rank in range(world_size) if rank not in session.block_counts]
        raise NotAttached(
            f"ranks {missing} of session {session.id} have not attached", ranks=missing
        )


def _check_blocks(session: Session, group: GroupBlocks) -> None:
    if len(group.keys) != len(group.blocks):
        raise InvalidRequest(
            f"group {group.group} has {len(group.keys)} keys and {len(group.blocks)} blocks",
            field="blocks",
        )
    if len(set(group.keys)) != len(group.keys):
        raise DuplicateKey(f"a key stands twice in group {group.group}", group=group.group)
    if len(set(group.blocks)) != len(group.blocks):
        raise DuplicateBlock(f"a block id stands twice in group {group.group}", group=group.group)
    block_count = next(iter(session.block_counts.values()))[group.group]
    if group.blocks and not 0 <= min(group.blocks) <= max(group.blocks) < block_count:
        raise BlockOutOfRange(
            f"block ids {min(group.blocks)} to {max(group.blocks)} of group {group.group} are not all below"
            f" {block_count}",
            group=group.group,
            block_count=block_count,
        )
