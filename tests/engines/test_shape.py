"""How far a hit reaches, held against the definition."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kvstow.client import GroupHits
from kvstow.client.engines.offload.shape import GroupShape, Shape

SHAPES = st.builds(
    lambda blocks, windows: Shape(
        tuple(GroupShape(2 * size, window) for size, window in zip(blocks, windows, strict=False)),
        hash_tokens=2,
        block_count=1,
    ),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.lists(st.sampled_from([0, 3, 5, 8]), min_size=3, max_size=3),
)


def is_enough(shape: Shape, start: int, end: int, states: dict[int, str]) -> bool:
    """Whether every block that is read behind `end` is there, or was there before `start`."""
    return all(
        states[number][block - start // group.block_tokens] == "R"
        for number, group in enumerate(shape.groups)
        for block in range(
            max(group.first_needed(end), start // group.block_tokens), end // group.block_tokens
        )
    )


@settings(deadline=None)
@given(st.data(), SHAPES, st.integers(0, 2), st.integers(0, 4))
def test_a_hit_reaches_as_far_as_every_group_has_what_it_needs(
    data: st.DataObject, shape: Shape, begin: int, count: int
) -> None:
    align = shape.align_tokens
    start, end = begin * align, (begin + count) * align
    states = {
        number: data.draw(st.text("R.", min_size=size, max_size=size))
        for number, group in enumerate(shape.groups)
        for size in [(end - start) // group.block_tokens]
    }
    found = {
        number: GroupHits(len(state) - len(state.lstrip("R")), 0, state)
        for number, state in states.items()
    }
    expected = max(
        reached
        for reached in range(start, end + 1, align)
        if reached == start or is_enough(shape, start, reached, states)
    )
    assert shape.reach(start, end, found) == expected


def test_the_key_of_a_block_is_the_hash_at_its_end() -> None:
    shape = Shape((GroupShape(2), GroupShape(6)), hash_tokens=2, block_count=1)
    hashes = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    assert shape.keys(hashes, 0, 1, 3) == [b"b", b"c"]
    assert shape.keys(hashes, 1, 0, 2) == [b"c", b"f"]
