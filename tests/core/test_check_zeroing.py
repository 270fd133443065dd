"""What `check` finds of zeroing: books that are right are made wrong in one place."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from core.engines import SLOT_BYTES, Engine, identity, make_ledger
from kvstow.server.core.books import Books
from kvstow.server.core.check import check
from kvstow.server.core.errors import BooksError
from kvstow.server.core.extents import Extent
from kvstow.server.core.index import BlockIndex
from kvstow.server.core.slots import SlotTable
from kvstow.server.core.zeroing import begin_zeroing

SIZE = 3 * SLOT_BYTES
"""One slot in each extent, and something left behind it."""


@pytest.fixture
def books() -> Books:
    """Books of one model, whose freed slots are zeroed: 1 is READY, 2 is WRITING, one slot is dirty, one is being zeroed."""
    ledger = make_ledger(16, extent_bytes=4 * SLOT_BYTES, zeroes="tenant".__eq__)
    engine = Engine(ledger, identity(block_bytes=[SIZE]))
    engine.begin_store([2])
    engine.finish(engine.begin_store([1, 3, 4]), 1, 2)
    ledger.begin_zeroing()
    ledger.check()
    return ledger._books


def table(books: Books) -> SlotTable:
    """Its slots."""
    return books.pool.tables[SIZE]


def index(books: Books) -> BlockIndex:
    """Its keys."""
    return next(iter(books.spaces.values())).indexes[0]


def dirty_extent(books: Books) -> Extent:
    """The extent with the dirty slot."""
    return next(iter(table(books).free.dirty.values()))


def clean_what_is_dirty(books: Books) -> None:
    extent = dirty_extent(books)
    extent.unstain(list(extent.dirty))


def clean_what_is_ready(books: Books) -> None:
    slot = table(books).owners.index(index(books))
    table(books).extents[slot].unstain([slot])


def clean_what_is_written(books: Books) -> None:
    ((_, slot),) = index(books).writing.items()
    table(books).extents[slot].unstain([slot])


def clean_while_others_use_it(books: Books) -> None:
    zeroing = books.pool.zeroing
    assert zeroing is not None
    books.pool.zeroing = replace(zeroing, slots=[*zeroing.slots, *dirty_extent(books).dirty])


def forget_a_zeroing(books: Books) -> None:
    books.pool.zeroing = None


def hand_out_what_is_stained(books: Books) -> None:
    extent = dirty_extent(books)
    extent.free, extent.dirty = extent.dirty, extent.free


def forget_to_zero(books: Books) -> None:
    table(books).free.dirty.clear()


def forget_a_tail(books: Books) -> None:
    dirty_extent(books).dirty_tail = True


def list_as_empty(books: Books) -> None:
    ((_, slot),) = index(books).ready_items()
    table(books).free.empty[slot] = table(books).extents[slot]


def forget_what_is_empty(books: Books) -> None:
    table(books).free.empty.clear()


def free_a_place(books: Books) -> None:
    table(books).free.places.append(0)


def count_a_dirty_slot(books: Books) -> None:
    table(books).free.dirty_count += 1


def count_a_stain(books: Books) -> None:
    dirty_extent(books).stained_count += 1


MISTAKES: dict[Callable[[Books], None], str] = {
    clean_what_is_dirty: "clean slot . is dirty",
    clean_what_is_ready: "as if it were not its owner's",
    clean_what_is_written: "is not stained",
    clean_while_others_use_it: "'dirty': True, 'zeroing': True",
    forget_a_zeroing: "'dirty': False, 'zeroing': False",
    hand_out_what_is_stained: "is free and not dirty",
    forget_to_zero: "does not wait to be zeroed",
    forget_a_tail: "has 1 busy slots",
    list_as_empty: "listed and not empty",
    forget_what_is_empty: "is empty and not listed",
    free_a_place: "a place is lost, or is free and has an extent",
    count_a_dirty_slot: "dirty slots, not 2",
    count_a_stain: "stained slots, not 2",
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_every_mistake_is_found(books: Books, mistake: Callable[[Books], None]) -> None:
    mistake(books)
    with pytest.raises(BooksError, match=MISTAKES[mistake]):
        check(books)


def test_a_zeroing_begins_and_ends_once(books: Books) -> None:
    """Two at a time, or an end without a beginning, are our own mistakes."""
    ledger = make_ledger(1)
    assert ledger.begin_zeroing() is None
    with pytest.raises(BooksError, match="not begun"):
        ledger.end_zeroing()
    with pytest.raises(BooksError, match="before the last one"):
        begin_zeroing(books)
    check(books)
