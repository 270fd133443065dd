"""Zeroing of freed slots, in the three beats of everything else: take dirty slots, zero them without the lock, give them
back.

Decided here: which slots are zeroed next, and how many at once. A store may take dirty slots, too, since it overwrites them. So
slots that wait to be zeroed are no reason to refuse a block; only those that are being zeroed just now cannot be had.
"""

from collections.abc import Iterator, Sequence

from .books import Books
from .errors import BooksError
from .extents import Zeroing

STEP_BYTES = 32 << 20
STEP_SLOTS = 1 << 10
"""What is zeroed at once, at most: some milliseconds' work, during which no store can have these slots."""


def has_dirt(books: Books) -> bool:
    """See `Ledger.has_dirt`."""
    return any(table.free.dirty for table in books.pool.tables.values())


def begin_zeroing(books: Books) -> Sequence[range] | None:
    """See `Ledger.begin_zeroing`."""
    if books.pool.zeroing is not None:
        raise BooksError("a zeroing began before the last one had ended")
    pool = books.pool
    dirty = [size for size, table in pool.tables.items() if table.free.dirty]
    if not dirty:
        return None
    # Slot sizes take turns: one that becomes dirty again and again must not keep the others waiting.
    size = min(dirty, key=lambda size: (size <= pool.last_zeroed, size))
    extent, slots = pool.tables[size].take_dirty(max(1, min(STEP_SLOTS, STEP_BYTES // size)))
    pool.zeroing, pool.last_zeroed = Zeroing(size, extent, slots), size
    return list(filter(None, _bytes(pool.zeroing, pool.extent_bytes)))


def end_zeroing(books: Books) -> None:
    """See `Ledger.end_zeroing`."""
    ended = books.pool.zeroing
    if ended is None:
        raise BooksError("a zeroing ended that had not begun")
    books.pool.tables[ended.slot_bytes].give_back_clean(ended.extent, ended.slots)
    books.pool.zeroing = None


def _bytes(zeroing: Zeroing, extent_bytes: int) -> Iterator[range]:
    """Where in the host pool its slots lie, neighbours together, and its tail."""
    extent, size = zeroing.extent, zeroing.slot_bytes
    base = extent.number * extent_bytes
    first = extent.place * extent.slot_count
    start = stop = base
    for slot in zeroing.slots:
        at = base + (slot - first) * size
        if at != stop:
            yield range(start, stop)
            start = at
        stop = at + size
    yield range(start, stop)
    if extent.dirty_tail:
        yield range(base + extent.slot_count * size, base + extent_bytes)
