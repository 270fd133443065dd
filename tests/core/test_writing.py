"""Keys that are WRITING, over several chapters, and what the garbage collector sees of them."""

import gc
import sys
from array import array
from collections.abc import Iterable
from dataclasses import replace

import pytest

from core.engines import Engine, key, make_ledger
from kvstow.server.core.errors import BooksError
from kvstow.server.core.history import Batch
from kvstow.server.core.transfers import StorePart
from kvstow.server.core.types import Fate
from kvstow.server.core.writing import CHAPTER_LIMIT, WritingKeys

ABANDONED = Batch(1, 1, 0.0, Fate.STORE_ABANDONED, ())


def blocks(numbers: Iterable[int]) -> dict[bytes, int]:
    """Blocks of these keys, each in the slot of its number."""
    return {key(number): number for number in numbers}


def full_chapter() -> tuple[WritingKeys, dict[bytes, int]]:
    """One chapter that takes no more, and what is in it."""
    writing, first = WritingKeys(), blocks(range(CHAPTER_LIMIT))
    writing.begin(first)
    return writing, first


def test_keys_are_found_in_every_chapter() -> None:
    writing, first = full_chapter()
    more = blocks(range(CHAPTER_LIMIT, CHAPTER_LIMIT + 2))
    begun = writing.begin(more)
    assert begun.chapter.keys() == more.keys()
    assert writing.count == len(first) + 2
    asked = [key(0), key(CHAPTER_LIMIT), key(CHAPTER_LIMIT + 9)]
    assert writing.among(asked) == {*asked[:2]}
    assert [writing.has(each) for each in asked] == [True, True, False]
    writing.end(begun, more)
    assert dict(writing.items()) == first


def test_a_chapter_that_has_room_again_takes_more() -> None:
    writing, first = WritingKeys(), blocks(range(CHAPTER_LIMIT))
    begun = writing.begin(first)
    other = writing.begin(blocks([CHAPTER_LIMIT]))
    writing.end(begun, first)
    assert writing.begin(blocks([1])).chapter is begun.chapter is not other.chapter
    assert writing.count == 2


def test_a_void_key_in_one_chapter_is_begun_in_another() -> None:
    writing, first = WritingKeys(), blocks(range(CHAPTER_LIMIT))
    void = writing.begin(first)
    writing.void(void, ABANDONED)
    again = writing.begin({key(7): 99})
    assert again.chapter is not void.chapter
    assert dict(writing.items()) == {key(7): 99}
    assert writing.among([*first]) == {key(7)}
    writing.forget(void, len(first))
    assert dict(writing.items()) == {key(7): 99}
    assert not void.chapter
    writing.end(again, [key(7)])
    assert writing.count == 0


def test_what_is_remembered_of_forgotten_keys_is_in_one_piece() -> None:
    writing = WritingKeys()
    void = writing.begin(blocks([1, 2, 3]))
    writing.void(void, ABANDONED)
    remembered = writing.forget(void, 2)
    assert key(2) + key(3) in remembered
    assert Batch.recalled(remembered) == replace(ABANDONED, keys=[key(2), key(3)])


def test_a_store_does_not_end_what_another_one_writes() -> None:
    writing = WritingKeys()
    mine, other = writing.begin(blocks([1])), writing.begin(blocks([2]))
    with pytest.raises(BooksError, match=key(2).hex()):
        writing.end(mine, [key(2)])
    assert dict(writing.items()) == blocks([1, 2])
    writing.end(other, [key(2)])


def test_only_what_is_void_is_forgotten() -> None:
    writing = WritingKeys()
    begun = writing.begin(blocks([1, 2]))
    with pytest.raises(BooksError, match="2 keys"):
        writing.forget(begun, 2)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="CPython tracks every dictionary")
def test_the_garbage_collector_walks_no_blocks_of_what_is_under_way() -> None:
    ledger = make_ledger(400)
    engine = Engine(ledger)
    engine.store(range(100))
    load, store = engine.begin_load(range(100)), engine.begin_store(range(100, 200))
    transfers = ledger._books.transfers
    parts = [*transfers[engine.session, load.transfer].parts]
    (stored,) = transfers[engine.session, store.transfer].parts
    assert isinstance(stored, StorePart)
    numbers = [part.slots for part in (*parts, stored)]
    numbers += [copies.slots for plan in (load, store) for copies in plan.copies]
    assert all(isinstance(each, array) and len(each) == 100 for each in numbers)
    assert not gc.is_tracked(stored.writing.blocks)
    assert not gc.is_tracked(stored.writing.chapter)
