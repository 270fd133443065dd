"""What the driver is told to copy is what the spans say, in few pieces that no page-lock boundary cuts."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstow.server.core.spans import Offsets, Segment, Spans, plan_spans
from kvstow.server.device.base import Direction
from kvstow.server.device.cuda.batches import Batch, HostChunks, Rows, as_rows, make_batch

TraceFunction: TypeAlias = Callable[[FrameType, str, object], Any]

BASES = np.array([1 << 40, 1 << 41], dtype=np.int64)
POOL = 1 << 20


@st.composite
def planned(draw: st.DrawFn) -> Spans:
    """Spans of one group with one to three segments in two regions, of blocks and slots in any order."""
    count = draw(st.integers(1, 20))
    sizes = draw(st.lists(st.integers(1, 300), min_size=1, max_size=3))
    segments, offset = [], 0
    for number, size in enumerate(sizes):
        stride = size + draw(st.sampled_from([0, 7]))
        segments.append(Segment(number % 2, offset, stride, size))
        offset += stride * 40
    numbers = st.lists(st.integers(0, 30), min_size=count, max_size=count, unique=True)
    ordered = st.just(list(range(3, 3 + count)))
    blocks, slots = draw(st.one_of(numbers, ordered)), draw(st.one_of(numbers, ordered))
    return plan_spans(segments, blocks, slots, sum(sizes), 40 * sum(sizes), 0)


def bytes_of(device: list[int], host: list[int], size: list[int]) -> dict[int, int]:
    """Which byte of the pool each byte on the GPU is copied from or to."""
    return {
        start + byte: at + byte
        for start, at, length in zip(device, host, size, strict=True)
        for byte in range(length)
    }


def meant(spans: Spans) -> dict[int, int]:
    start = (BASES[spans.region] + spans.region_offset).tolist()
    return bytes_of(start, (POOL + spans.pool_offset).tolist(), spans.length.tolist())


def of_batch(batch: Batch) -> dict[int, int]:
    return bytes_of(batch.device.tolist(), batch.host.tolist(), batch.size.tolist())


def of_rows(rows: Rows) -> dict[int, int]:
    columns = (rows.device, rows.host, rows.device_pitch, rows.host_pitch, rows.width, rows.height)
    found: dict[int, int] = {}
    for device, host, pitch, host_pitch, width, height in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        starts = [device + row * pitch for row in range(height)]
        found |= bytes_of(
            starts, [host + row * host_pitch for row in range(height)], [width] * height
        )
    return found


@settings(deadline=None)
@given(planned(), st.integers(1, 4000), st.sampled_from(Direction))
def test_every_byte_is_copied_once_and_no_copy_crosses_a_chunk(
    spans: Spans, chunk_bytes: int, direction: Direction
) -> None:
    host = HostChunks(POOL, chunk_bytes)
    batch = make_batch(direction, spans, BASES, host)

    assert of_batch(batch) == meant(spans)
    assert int(batch.size.sum()) == spans.size_bytes
    first, last = (
        (batch.host - POOL) // chunk_bytes,
        (batch.host + batch.size - 1 - POOL) // chunk_bytes,
    )
    assert np.array_equal(first, last)


@settings(deadline=None)
@given(planned(), st.integers(1, 4000), st.sampled_from(Direction))
def test_rows_copy_the_same_and_stay_in_their_chunk(
    spans: Spans, chunk_bytes: int, direction: Direction
) -> None:
    host = HostChunks(POOL, chunk_bytes)
    batch = make_batch(direction, spans, BASES, host)
    rows = as_rows(batch, host)

    assert of_rows(rows) == meant(spans)
    end = rows.host + (rows.height - 1) * rows.host_pitch + rows.width
    assert np.array_equal((rows.host - POOL) // chunk_bytes, (end - 1 - POOL) // chunk_bytes)
    assert (np.minimum(rows.device_pitch, rows.host_pitch) >= rows.width).all()


def steps_of(work: Callable[[], object]) -> int:
    """Instructions of Python that are executed; what is done in C is none."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> TraceFunction:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return note

    work()  # whatever is done but once
    before = sys.gettrace()
    gc.disable()  # it may call others when it comes
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 150])
def test_what_a_piece_takes_of_python_does_not_grow_with_its_blocks(chunk_bytes: int) -> None:
    host = HostChunks(POOL, chunk_bytes)

    def describe(count: int) -> None:
        batch = make_batch(Direction.STORE, planned_apart[count], BASES, host)
        as_rows(batch, host)

    segments = [Segment(0, 0, 100, 100)]
    planned_apart = {
        count: plan_spans(segments, range(0, 2 * count, 2), range(count), 100, 100 * count, 0)
        for count in (10, 1000)
    }
    few, many = (steps_of(partial(describe, count)) for count in planned_apart)
    assert len(planned_apart[1000]) == 1000
    assert few == many


def test_neighbours_in_both_places_become_one_copy() -> None:
    segments = [Segment(0, 0, 100, 100)]
    spans = plan_spans(segments, [4, 5, 6, 9], [0, 1, 2, 3], 100, 400, 0)
    batch = make_batch(Direction.STORE, spans, BASES, HostChunks(POOL, 1 << 20))

    assert batch.size.tolist() == [300, 100]
    assert batch.sources.tolist() == [(1 << 40) + 400, (1 << 40) + 900]
    assert batch.targets.tolist() == [POOL, POOL + 300]


def test_regions_that_happen_to_touch_stay_apart() -> None:
    def column(*values: int) -> Offsets:
        return np.array(values, dtype=np.int64)

    spans = Spans(
        column(0, 1), column(0, 64), column(0, 64), column(64, 64), column(0, 1), column(0, 1)
    )
    touching = column(1 << 40, 1 << 40)

    assert len(make_batch(Direction.LOAD, spans, touching, HostChunks(POOL, 1 << 20))) == 2


def test_the_layers_of_blocks_in_a_row_become_one_row_each() -> None:
    layers = [Segment(0, layer * 64_000, 64, 64) for layer in range(3)]
    spans = plan_spans(layers, range(10, 30), range(20), 192, 192 * 20, 0)
    host = HostChunks(POOL, 1 << 20)
    rows = as_rows(make_batch(Direction.STORE, spans, BASES, host), host)

    assert rows.height.tolist() == [20, 20, 20]
    assert rows.host_pitch.tolist() == [192, 192, 192]
    assert rows.device_pitch.tolist() == [64, 64, 64]
