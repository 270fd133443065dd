"""The index: every move from every state, random histories against a dict, and the handing back of a retired one.

Everything is asked of a dense index and of one that is split into shards; they must not differ in any answer.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engines import key
from kvstow.server.core.errors import BooksError
from kvstow.server.core.history import Batch
from kvstow.server.core.index import DENSE_LIMIT, TRANSITIONS, BlockIndex, Move
from kvstow.server.core.types import Fate, KeyState
from kvstow.server.core.writing import Writing

SLOT_LIMITS = (DENSE_LIMIT, DENSE_LIMIT + 1)
"""The first makes one dictionary, the second makes shards."""

ABANDONED = Batch(1, 1, 0.0, Fate.STORE_ABANDONED, ())

KEYS = [key(number) for number in range(6)]
SLOTS = {stored: 100 - number for number, stored in enumerate(KEYS)}


def writing(index: BlockIndex, moved: bytes) -> Writing:
    """The store that writes the key, or one that does not."""
    for begun in index.writing._begun.values():
        if moved in begun.blocks:
            return begun
    return Writing({moved: SLOTS[moved]}, 99, index.writing._chapters[0], 1)


def store(index: BlockIndex, blocks: dict[bytes, int]) -> None:
    """Make blocks READY."""
    index.publish(index.begin(blocks), blocks)


MOVES: dict[Move, Callable[[BlockIndex, bytes], object]] = {
    Move.BEGIN: lambda index, moved: index.begin({moved: SLOTS[moved]}),
    Move.PUBLISH: lambda index, moved: index.publish(writing(index, moved), {moved: SLOTS[moved]}),
    Move.ABORT: lambda index, moved: index.abort(writing(index, moved), [moved]),
    Move.EVICT: lambda index, moved: index.evict([moved]),
}

WAYS: dict[KeyState, tuple[Move, ...]] = {
    KeyState.ABSENT: (),
    KeyState.WRITING: (Move.BEGIN,),
    KeyState.READY: (Move.BEGIN, Move.PUBLISH),
}
"""How a new key comes into each state."""


@pytest.fixture(params=SLOT_LIMITS, ids=["dense", "sharded"])
def index(request: pytest.FixtureRequest) -> BlockIndex:
    return BlockIndex(1, request.param)


def facts(index: BlockIndex) -> tuple[object, ...]:
    """Everything that an index shows."""
    return (
        dict(index.ready_items()),
        dict(index.writing.items()),
        index.ready_count,
        index.writing.count,
    )


def test_the_table_names_every_state() -> None:
    assert TRANSITIONS.keys() == set(KeyState)


@pytest.mark.parametrize(
    ("state", "move"),
    # A store of what is READY or WRITING is found later: see the next tests.
    [pair for pair in product(KeyState, Move) if pair[1] is not Move.BEGIN]
    + [(KeyState.ABSENT, Move.BEGIN)],
)
def test_every_move_from_every_state(index: BlockIndex, state: KeyState, move: Move) -> None:
    moved, bystander = KEYS[:2]
    for before in WAYS[KeyState.READY]:
        MOVES[before](index, bystander)
    for before in WAYS[state]:
        MOVES[before](index, moved)
    assert index.state(moved) is state

    reached = TRANSITIONS[state].get(move)
    if reached is None:
        shown = facts(index)
        with pytest.raises(BooksError, match=moved.hex()):
            MOVES[move](index, moved)
        assert facts(index) == shown
    else:
        MOVES[move](index, moved)
        assert index.state(moved) is reached
        assert bool(index.writing.among([moved])) is (reached is KeyState.WRITING)
        assert index.probe([moved]) == [SLOTS[moved] if reached is KeyState.READY else None]
    assert index.state(bystander) is KeyState.READY


def test_a_store_of_what_is_ready_is_found_when_it_would_be_published(index: BlockIndex) -> None:
    store(index, {KEYS[0]: 1})
    with pytest.raises(BooksError, match=KEYS[0].hex()):
        store(index, {KEYS[0]: 2})
    assert index.probe(KEYS[:1]) == [1]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("chapter_limit", [1, 9], ids=["two chapters", "one chapter"])
def test_a_store_of_what_another_one_writes_is_found_when_both_have_ended(
    index: BlockIndex, monkeypatch: pytest.MonkeyPatch, order: tuple[int, int], chapter_limit: int
) -> None:
    monkeypatch.setattr("kvstow.server.core.writing.CHAPTER_LIMIT", chapter_limit)
    begun = [index.begin({KEYS[0]: slot}) for slot in (1, 2)]

    def end_both() -> None:
        for number in order:
            index.publish(begun[number], begun[number].blocks)

    with pytest.raises(BooksError, match=KEYS[0].hex()):
        end_both()


def test_the_keys_of_a_void_store_are_absent_at_once_and_forgotten_later(
    index: BlockIndex,
) -> None:
    first = index.begin(dict(zip(KEYS[:4], range(4), strict=True)))
    index.writing.void(first, ABANDONED)
    assert facts(index) == ({}, {}, 0, 0)
    assert [index.state(each) for each in KEYS[:4]] == [KeyState.ABSENT] * 4
    assert not index.writing.among(KEYS)
    with pytest.raises(BooksError, match=KEYS[3].hex()):
        index.abort(first, KEYS[3:4])
    with pytest.raises(BooksError, match=KEYS[3].hex()):
        index.publish(first, {KEYS[3]: 3})

    # Another store may begin them; it keeps what it has when those of the first are forgotten.
    blocks = {KEYS[1]: 11, KEYS[2]: 12}
    second = index.begin(blocks)
    for keys in (KEYS[2:4], KEYS[:2]):
        forgotten = Batch.recalled(index.writing.forget(first, 2))
        assert forgotten == replace(ABANDONED, keys=keys)
    assert facts(index) == ({}, {KEYS[1]: 11, KEYS[2]: 12}, 0, 2)
    assert list(index.writing.void_items()) == []
    index.publish(second, blocks)
    assert index.probe(KEYS[:4]) == [None, 11, 12, None]


@settings(deadline=None)
@given(
    history=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=60),
    asked=st.lists(st.sampled_from(KEYS), unique=True),
    start=st.integers(0, 3),
)
def test_random_histories_against_a_dict(
    history: list[tuple[bytes, bool]], asked: list[bytes], start: int
) -> None:
    """Each step moves one key on; where there are two ways, the flag chooses."""
    indexes = [BlockIndex(1, limit) for limit in SLOT_LIMITS]
    model = dict.fromkeys(KEYS, KeyState.ABSENT)
    for moved, second in history:
        moves = list(TRANSITIONS[model[moved]])
        move = moves[-1 if second else 0]
        model[moved] = TRANSITIONS[model[moved]][move]
        for index in indexes:
            MOVES[move](index, moved)

    def leading(keys: list[bytes], *states: KeyState) -> int:
        found = [model[each] in states for each in keys]
        return [*found, False].index(False)

    ready = {each: SLOTS[each] for each in KEYS if model[each] is KeyState.READY}
    writing = {each: SLOTS[each] for each in KEYS if model[each] is KeyState.WRITING}
    for index in indexes:
        assert facts(index) == (ready, writing, len(ready), len(writing))
        assert [index.state(each) for each in KEYS] == list(model.values())
        assert index.probe(asked) == [ready.get(each) for each in asked]
        prefix = asked[: leading(asked, KeyState.READY)]
        assert index.ready_prefix(asked) == [SLOTS[each] for each in prefix]
        assert index.present_count(asked, start) == leading(
            asked[start:], KeyState.READY, KeyState.WRITING
        )


@pytest.mark.parametrize("slot_limit", SLOT_LIMITS)
def test_a_retired_index_hands_every_slot_back_once(slot_limit: int) -> None:
    index = BlockIndex(1, slot_limit)
    keys = [key(number) for number in range(200)]
    store(index, {key: slot for slot, key in enumerate(keys)})

    batches = []
    while batch := index.drain_shard():
        batches.append(batch)
        assert index.ready_count == len(keys) - sum(map(len, batches))
    assert sorted(slot for batch in batches for slot in batch) == list(range(len(keys)))
    assert (len(batches) > 1) is (slot_limit > DENSE_LIMIT)
    assert index.drain_shard() == []
    assert facts(index) == ({}, {}, 0, 0)


def test_what_is_evicted_from_a_retired_index_is_not_handed_back() -> None:
    index = BlockIndex(1, DENSE_LIMIT + 1)
    keys = [key(number) for number in range(200)]
    store(index, {key: slot for slot, key in enumerate(keys)})
    first = index.drain_shard()
    left = dict(index.ready_items())
    evicted, slot = left.popitem()
    index.evict([evicted])
    rest = []
    while batch := index.drain_shard():
        rest += batch
    assert sorted([*first, *rest, slot]) == list(range(len(keys)))
