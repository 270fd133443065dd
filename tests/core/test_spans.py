"""Spans against a model that thinks byte by byte: the same bytes, nothing outside, blocks named rightly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstow.server.core.errors import RegionInvalid
from kvstow.server.core.spans import (
    Segment,
    Spans,
    check_segments,
    cut,
    join_spans,
    plan_spans,
    without_blocks,
)

Byte = tuple[int, int, int, int]
"""Region, offset in it, offset in the pool, and the block that the byte belongs to."""


@dataclass(frozen=True)
class World:
    """One rank's share of one group of one transfer."""

    segments: tuple[Segment, ...]
    block_count: int
    blocks: tuple[int, ...]
    slots: tuple[int, ...]
    slot_bytes: int
    extent_bytes: int
    rank_offset: int

    def plan(self) -> Spans:
        return plan_spans(
            self.segments,
            self.blocks,
            self.slots,
            self.slot_bytes,
            self.extent_bytes,
            self.rank_offset,
        )

    def model(self) -> list[Byte]:
        """What is to be copied, byte by byte, in the order of blocks and slots."""
        per_extent = self.extent_bytes // self.slot_bytes
        moved = []
        for number, (block, slot) in enumerate(zip(self.blocks, self.slots, strict=True)):
            pool = slot // per_extent * self.extent_bytes + slot % per_extent * self.slot_bytes
            pool += self.rank_offset
            for segment in self.segments:
                start = segment.offset_bytes + block * segment.stride_bytes
                for byte in range(segment.size_bytes):
                    moved.append((segment.region, start + byte, pool, number))
                    pool += 1
        return moved


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Segments side by side in each block of their region, with and without gaps, slots with and without ranks."""
    block_count = draw(st.integers(1, 8))
    segments: list[Segment] = []
    for region in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
        gap = draw(st.sampled_from([0, 0, 3]))
        stride = sum(sizes) + len(sizes) * gap
        start = draw(st.integers(0, 4))
        for size in sizes:
            segments.append(Segment(region, start, stride, size))
            start += size + gap
    block_bytes = sum(segment.size_bytes for segment in segments)
    world_size = draw(st.integers(1, 2))
    rank_offset = block_bytes * draw(st.integers(0, world_size - 1))
    slot_bytes = block_bytes * world_size + draw(st.sampled_from([0, 0, 5]))
    extent_bytes = slot_bytes * draw(st.integers(1, 4)) + draw(st.integers(0, slot_bytes - 1))
    blocks = _runs(draw, block_count)
    slots = _runs(draw, 12)[: len(blocks)]
    blocks = blocks[: len(slots)]
    return World(
        tuple(segments), block_count, blocks, slots, slot_bytes, extent_bytes, rank_offset
    )


def _runs(draw: st.DrawFn, stop: int) -> tuple[int, ...]:
    """Distinct numbers below `stop`: in order, so that there is something to merge, or shuffled."""
    numbers = draw(st.sets(st.integers(0, stop - 1)))
    return tuple(draw(st.sampled_from([sorted(numbers), list(numbers)[::-1]])))


def moved(spans: Spans) -> list[tuple[int, int, int]]:
    """The bytes that spans move, in order."""
    return [
        (int(spans.region[k]), int(spans.region_offset[k]) + b, int(spans.pool_offset[k]) + b)
        for k in range(len(spans))
        for b in range(int(spans.length[k]))
    ]


def covered(spans: Spans, model: Sequence[Byte]) -> None:
    """Every span names exactly the blocks whose bytes it moves."""
    at = {byte[:3]: byte[3] for byte in model}
    for k in range(len(spans)):
        inside = moved(Spans(*(column[k : k + 1] for column in columns(spans))))
        numbers = {at[byte] for byte in inside}
        assert numbers == set(range(int(spans.first_block[k]), int(spans.last_block[k]) + 1))


def columns(spans: Spans) -> tuple[np.ndarray, ...]:
    return (
        spans.region,
        spans.region_offset,
        spans.pool_offset,
        spans.length,
        spans.first_block,
        spans.last_block,
    )


@settings(deadline=None)
@given(worlds())
def test_a_plan_moves_the_bytes_of_the_model_in_its_order(world: World) -> None:
    spans, model = world.plan(), world.model()

    assert moved(spans) == [byte[:3] for byte in model]
    covered(spans, model)
    assert spans.block_count == len(world.blocks)
    assert spans.size_bytes == len(model)


@settings(deadline=None)
@given(worlds())
def test_a_plan_stays_inside_what_was_checked(world: World) -> None:
    sizes = [0, 0, 0]
    for segment in world.segments:
        end = segment.offset_bytes + (world.block_count - 1) * segment.stride_bytes
        least = max(end + segment.size_bytes, segment.stride_bytes)
        sizes[segment.region] = max(sizes[segment.region], least)
    check_segments(world.segments, sizes, world.block_count)

    spans = world.plan()

    assert (spans.region_offset >= 0).all()
    assert (spans.region_offset + spans.length <= np.array(sizes)[spans.region]).all()
    for region, size in enumerate(sizes):
        if size:
            short = [size - (k == region) for k, size in enumerate(sizes)]
            with pytest.raises(RegionInvalid, match=f"region {region}"):
                check_segments(world.segments, short, world.block_count)


@settings(deadline=None)
@given(worlds(), st.integers(1, 40))
def test_pieces_are_small_and_together_the_whole(world: World, piece_bytes: int) -> None:
    pieces = list(cut(world.plan(), piece_bytes))

    assert [byte for piece in pieces for byte in moved(piece)] == [b[:3] for b in world.model()]
    for piece in pieces:
        assert 0 < piece.size_bytes <= piece_bytes
        covered(piece, world.model())


@settings(deadline=None)
@given(st.lists(worlds(), min_size=1, max_size=3))
def test_joined_groups_count_their_blocks_on(groups: list[World]) -> None:
    joined = join_spans([group.plan() for group in groups])

    model, before = [], 0
    for group in groups:
        model += [(*byte[:3], byte[3] + before) for byte in group.model()]
        before += len(group.blocks)
    assert moved(joined) == [byte[:3] for byte in model]
    number = iter(model)
    for k in range(len(joined)):
        inside = {next(number)[3] for _ in range(int(joined.length[k]))}
        assert inside == set(range(int(joined.first_block[k]), int(joined.last_block[k]) + 1))


@settings(deadline=None)
@given(worlds(), st.sets(st.integers(0, 9)))
def test_left_out_blocks_are_not_moved(world: World, left_out: set[int]) -> None:
    kept = without_blocks(world.plan(), sorted(left_out))

    model = [byte for byte in world.model() if byte[3] not in left_out]
    assert moved(kept) == [byte[:3] for byte in model]
    covered(kept, model)


@settings(deadline=None)
@given(st.data())
def test_overlap_is_found_exactly_where_bytes_are_shared(data: st.DataObject) -> None:
    block_count = data.draw(st.integers(1, 5))
    stride = data.draw(st.integers(4, 12))
    segments = data.draw(
        st.lists(
            st.builds(
                Segment,
                region=st.integers(0, 1),
                offset_bytes=st.integers(0, 60),
                stride_bytes=st.just(stride),
                size_bytes=st.integers(1, 4),
            ),
            min_size=1,
            max_size=4,
        )
    )
    touched = [
        (segment.region, segment.offset_bytes + block * segment.stride_bytes + byte)
        for segment in segments
        for block in range(block_count)
        for byte in range(segment.size_bytes)
    ]

    if len(set(touched)) == len(touched):
        check_segments(segments, [200, 200], block_count)
    else:
        with pytest.raises(RegionInvalid, match="overlap"):
            check_segments(segments, [200, 200], block_count)


def test_a_full_slot_run_is_one_span() -> None:
    segments = [Segment(0, 0, 24, 16), Segment(0, 16, 24, 8)]

    spans = plan_spans(segments, [4, 5, 6, 9], [10, 11, 12, 13], 24, 24 * 64, 0)

    assert spans.length.tolist() == [72, 24]
    assert spans.first_block.tolist() == [0, 3]
    assert spans.last_block.tolist() == [2, 3]


def test_no_run_crosses_the_end_of_an_extent_that_slots_do_not_fill() -> None:
    spans = plan_spans([Segment(0, 0, 24, 24)], [0, 1, 2, 3], [0, 1, 2, 3], 24, 50, 0)

    assert spans.pool_offset.tolist() == [0, 50]
    assert spans.length.tolist() == [48, 48]


GOOD = Segment(region=0, offset_bytes=0, stride_bytes=16, size_bytes=8)


@pytest.mark.parametrize(
    ("segment", "block_count", "complaint"),
    [
        (replace(GOOD, region=1), 4, "attached 1 regions"),
        (replace(GOOD, region=-1), 4, "attached 1 regions"),
        (replace(GOOD, offset_bytes=-8), 4, "offset_bytes -8"),
        (replace(GOOD, size_bytes=0), 4, "size_bytes 0"),
        (replace(GOOD, stride_bytes=7), 4, "stride_bytes 7"),
        (replace(GOOD, stride_bytes=2**70), 1, "stride_bytes 1180591620717411303424"),
        (replace(GOOD, offset_bytes=1), 4, "block 3 ends at byte 57, the region at 56"),
        (replace(GOOD, offset_bytes=2**70), 4, "the region at 56"),
        (GOOD, 5, "block 4 ends at byte 72, the region at 56"),
        (GOOD, 2**70, "the region at 56"),
        (GOOD, 0, "0 blocks"),
        (GOOD, -1, "-1 blocks"),
    ],
)
def test_a_segment_that_cannot_be_is_refused(
    segment: Segment, block_count: int, complaint: str
) -> None:
    check_segments([GOOD], [56], 4)

    with pytest.raises(RegionInvalid, match=complaint):
        check_segments([segment], [56], block_count)


def test_a_group_without_segments_is_refused() -> None:
    with pytest.raises(RegionInvalid, match="0 segments"):
        check_segments([], [56], 4)


def test_segments_of_different_strides_may_not_lie_among_each_other() -> None:
    apart = [Segment(0, 0, 16, 8), Segment(0, 64, 8, 8)]
    check_segments(apart, [96], 4)

    with pytest.raises(RegionInvalid, match="segments 0 and 1 in region 0") as refusal:
        check_segments([Segment(0, 0, 16, 8), Segment(0, 8, 32, 8)], [200], 4)
    assert refusal.value.facts == {"segment": "0", "other_segment": "1", "region": "0"}
