"""What `check` finds of stores that were abandoned, and of keys that are to be forgotten."""

from collections.abc import Callable

import pytest

from core.engines import Engine, make_ledger
from kvstow.server.core.books import Books
from kvstow.server.core.check import check
from kvstow.server.core.errors import BooksError
from kvstow.server.core.history import Batch
from kvstow.server.core.transfers import StorePart, Transfer
from kvstow.server.core.types import Fate


@pytest.fixture
def books() -> Books:
    """Books with one store under way, of two blocks."""
    ledger = make_ledger(4)
    Engine(ledger).begin_store([1, 2])
    ledger.check()
    return ledger._books


def store(books: Books) -> Transfer:
    """The store."""
    (found,) = books.transfers.values()
    return found


def part(books: Books) -> StorePart:
    """What it fills."""
    (found,) = store(books).parts
    assert isinstance(found, StorePart)
    return found


def abandon(books: Books) -> None:
    """End the store, and leave to the sweep what comes loose."""
    books.abandon(store(books), 1.0)
    books.pool.loosened.clear()


def forget_a_loose_store(books: Books) -> None:
    table = part(books).table
    abandon(books)
    table.backlog.clear()


def lose_a_void_key(books: Books) -> None:
    """Its slot is free, and nobody is left to take it out."""
    filled = part(books)
    abandon(books)
    filled.table.give_back(filled.slots)
    filled.table.backlog.clear()


def void_a_store(books: Books) -> None:
    filled = part(books)
    filled.index.writing.void(filled.writing, Batch(1, 1, 0.0, Fate.STORE_ABANDONED, ()))


def count_a_writing_key(books: Books) -> None:
    part(books).index.writing.count += 1


def leave_loose_what_may_be_given_back(books: Books) -> None:
    books.abandon(store(books), 1.0)


MISTAKES: dict[Callable[[Books], None], str] = {
    forget_a_loose_store: "'taken': False",
    lose_a_void_key: "is never forgotten",
    void_a_store: "their store is not abandoned",
    count_a_writing_key: "2 WRITING keys, not 3",
    leave_loose_what_may_be_given_back: "has not given back what it may",
}


def test_a_store_that_ends_leaves_right_books(books: Books) -> None:
    filled = part(books)
    abandon(books)
    check(books)
    while books.pool.sweep():
        check(books)
    assert list(filled.index.writing.void_items()) == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_every_mistake_is_found(books: Books, mistake: Callable[[Books], None]) -> None:
    mistake(books)
    with pytest.raises(BooksError, match=MISTAKES[mistake]):
        check(books)
