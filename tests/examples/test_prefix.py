"""Hashes of a prefix: equal exactly where everything before is equal."""

from hypothesis import given
from hypothesis import strategies as st

from examples.engine.prefix import BLOCK_TOKENS, HASH_BYTES, blocks_for, chain_hashes

TOKENS = st.lists(st.integers(0, 49151), max_size=6 * BLOCK_TOKENS)
SALTS = st.binary(max_size=80)


@given(TOKENS, SALTS)
def test_every_full_block_has_a_hash_of_its_own(tokens: list[int], salt: bytes) -> None:
    hashes = chain_hashes(tokens, salt)
    assert len(hashes) == len(tokens) // BLOCK_TOKENS
    assert len(set(hashes)) == len(hashes)
    assert all(len(block_hash) == HASH_BYTES for block_hash in hashes)


@given(TOKENS, TOKENS, SALTS)
def test_a_prefix_keeps_its_hashes_whatever_follows(
    tokens: list[int], more: list[int], salt: bytes
) -> None:
    hashes = chain_hashes(tokens, salt)
    assert chain_hashes(tokens + more, salt)[: len(hashes)] == hashes


@given(
    st.lists(st.integers(0, 49151), min_size=BLOCK_TOKENS, max_size=6 * BLOCK_TOKENS), st.data()
)
def test_a_changed_token_changes_its_block_and_all_after(
    tokens: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(tokens) // BLOCK_TOKENS * BLOCK_TOKENS - 1))
    changed = [*tokens[:place], tokens[place] + 1, *tokens[place + 1 :]]
    before, after = chain_hashes(tokens), chain_hashes(changed)
    first = place // BLOCK_TOKENS
    assert after[:first] == before[:first]
    assert not set(after[first:]) & set(before)


@given(st.lists(st.integers(0, 49151), min_size=BLOCK_TOKENS, max_size=80), SALTS, SALTS)
def test_salts_share_nothing(tokens: list[int], one: bytes, other: bytes) -> None:
    shared = set(chain_hashes(tokens, one)) & set(chain_hashes(tokens, other))
    assert bool(shared) == (one == other)


def test_a_partly_filled_block_counts_as_one() -> None:
    assert [blocks_for(n) for n in (0, 1, BLOCK_TOKENS, BLOCK_TOKENS + 1)] == [0, 1, 1, 2]
