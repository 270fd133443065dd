"""Which pool sizes are tried, and which one is enough."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.replay import enough, ladder
from kvstow.server.replay.sizes import RUNGS

GIB = 1 << 30


def test_a_ladder_has_sizes_in_which_memory_is_sold() -> None:
    sizes = [size / GIB for size in ladder(100 * GIB, 1 << 20)]
    assert sizes[-8:] == [12, 16, 24, 32, 48, 64, 96, 100]
    assert len(sizes) == RUNGS + 1


def test_a_ladder_ends_where_the_footprint_is() -> None:
    assert ladder(64 * GIB, 16 * GIB) == [16 * GIB, 24 * GIB, 32 * GIB, 48 * GIB, 64 * GIB]
    assert ladder(3, 3) == [3]
    assert ladder(1, 1) == [1]


@given(blocks=st.integers(1, 1 << 40), block_bytes=st.integers(1, 1 << 40))
def test_every_pool_on_a_ladder_holds_a_block(blocks: int, block_bytes: int) -> None:
    sizes = ladder(blocks * block_bytes, block_bytes)
    assert all(low < high for low, high in pairwise(sizes))
    assert sizes[0] >= block_bytes
    assert sizes[-1] == blocks * block_bytes
    assert len(sizes) <= RUNGS + 1


@pytest.mark.parametrize(
    ("hit_ratios", "margin", "expected"),
    [
        ({1: 0.2, 2: 0.49, 4: 0.5}, 0.0, 4),
        ({1: 0.2, 2: 0.49, 4: 0.5}, 0.02, 2),
        ({1: 0.2, 2: 0.49, 4: 0.5}, 1.0, 1),
        ({4: 0.5, 1: 0.2, 2: 0.49}, 0.02, 2),  # in any order
        ({1: 0.49, 2: 0.2, 4: 0.5}, 0.02, 4),  # a larger one is not
        ({1: 0.2, 2: 0.3}, 0.02, None),
    ],
)
def test_enough_is_where_more_memory_stops_helping(
    hit_ratios: dict[int, float], margin: float, expected: int | None
) -> None:
    assert enough(hit_ratios, 0.5, margin) == expected
