"""Where the bytes of a transfer lie: layout, engine block ids and slots become byte spans, merged and bounds-checked.

Pure arithmetic on numpy arrays, one call per transfer and rank. Nothing here knows who asked or whether it is allowed:
segments are checked once, when a rank attaches, and block ids by the ledger.

The order of spans is part of their meaning: block by block, and inside a block in the order of the slot. A span covers
either a part of one block or several whole blocks of equal size; every function here keeps both properties.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .errors import RegionInvalid

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """Where one segment of every block of a group lies in a rank's memory.

    Args:
        region: index of the region among those the rank attached.
        offset_bytes: start of block 0's segment in the region.
        stride_bytes: distance between the segments of consecutive blocks.
        size_bytes: length of the segment.
    """

    region: int
    offset_bytes: int
    stride_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Spans:
    """Byte ranges to copy between engine regions and the host pool, all arrays of equal length.

    Args:
        region: index of the region of each span.
        region_offset: start of each span in its region.
        pool_offset: start of each span in the host pool.
        length: bytes of each span.
        first_block, last_block: which blocks (by index in the planned sequence) the span covers, both inclusive.
    """

    region: Offsets
    region_offset: Offsets
    pool_offset: Offsets
    length: Offsets
    first_block: Offsets
    last_block: Offsets

    def __len__(self) -> int:
        return len(self.length)

    @property
    def size_bytes(self) -> int:
        """Bytes of all spans together."""
        return int(self.length.sum())

    @property
    def block_count(self) -> int:
        """Blocks that the spans were planned for, unless `without_blocks` left out the last."""
        return int(self.last_block[-1]) + 1 if len(self) else 0


def check_segments(
    segments: Sequence[Segment], region_sizes: Sequence[int], block_count: int
) -> None:
    """Check what a rank says about one group before any block of it is copied.

    Args:
        segments: the segments of the group, in the order in which they lie in a slot.
        region_sizes: bytes of each region that the rank attached.
        block_count: blocks that the group has in the rank's memory.

    Raises:
        RegionInvalid: a segment of some block lies outside its region, or two of them share bytes.
    """
    if block_count < 1 or not segments:
        raise RegionInvalid(
            f"a group needs a block and a segment: {block_count} blocks, {len(segments)} segments",
            block_count=block_count,
            segment_count=len(segments),
        )
    for number, segment in enumerate(segments):
        complaint = _complaint(segment, region_sizes, block_count)
        if complaint is not None:
            raise RegionInvalid(
                f"segment {number} in region {segment.region}: {complaint}",
                segment=number,
                region=segment.region,
            )
    for region in sorted({segment.region for segment in segments}):
        numbers = [n for n, segment in enumerate(segments) if segment.region == region]
        _check_overlap(numbers, [segments[n] for n in numbers], block_count)


def _complaint(segment: Segment, region_sizes: Sequence[int], block_count: int) -> str | None:
    """What is wrong with one segment taken alone."""
    if not 0 <= segment.region < len(region_sizes):
        return f"the rank attached {len(region_sizes)} regions"
    if segment.offset_bytes < 0 or segment.size_bytes < 1:
        return (
            f"offset_bytes {segment.offset_bytes} must be at least 0"
            f" and size_bytes {segment.size_bytes} at least 1"
        )
    size = region_sizes[segment.region]
    if not segment.size_bytes <= segment.stride_bytes <= size:
        return (
            f"stride_bytes {segment.stride_bytes} must lie between size_bytes"
            f" {segment.size_bytes} and the region's {size}"
        )
    end = segment.offset_bytes + (block_count - 1) * segment.stride_bytes + segment.size_bytes
    if end > size:
        return f"block {block_count - 1} ends at byte {end}, the region at {size}"
    return None


def _check_overlap(numbers: Sequence[int], segments: Sequence[Segment], block_count: int) -> None:
    """Check segments of one region against each other; `numbers` are their places in the group.

    Block i of one segment and block j of another, with one stride and the second starting `gap` bytes behind, share
    bytes if and only if gap - size < (i - j) * stride < gap + other size. The least i - j above the left bound decides.
    """
    order = sorted(range(len(segments)), key=lambda k: segments[k].offset_bytes)
    offset = np.array([segments[k].offset_bytes for k in order], dtype=np.int64)
    stride = np.array([segments[k].stride_bytes for k in order], dtype=np.int64)
    size = np.array([segments[k].size_bytes for k in order], dtype=np.int64)
    end = offset + (block_count - 1) * stride + size
    for k, reach in enumerate(np.searchsorted(offset, end)):
        behind = slice(k + 1, reach)
        gap = offset[behind] - offset[k]
        shift = (gap - size[k]) // stride[k] + 1
        shared = (shift < block_count) & (shift * stride[k] < gap + size[behind])
        wrong = np.flatnonzero(shared | (stride[behind] != stride[k]))
        if len(wrong):
            first, second = numbers[order[k]], numbers[order[k + 1 + int(wrong[0])]]
            raise RegionInvalid(
                f"segments {first} and {second} in region {segments[0].region} overlap,"
                " or lie among each other with different strides",
                segment=first,
                other_segment=second,
                region=segments[0].region,
            )


def plan_spans(
    segments: Sequence[Segment],
    blocks: Sequence[int],
    slots: Sequence[int],
    slot_bytes: int,
    extent_bytes: int,
    rank_offset: int,
) -> Spans:
    """Compute what one rank copies of one group.

    A slot number is extent * slots_per_extent + position, where slots_per_extent = extent_bytes // slot_bytes; it
    stands for the bytes from extent * extent_bytes + position * slot_bytes on. The rank's part begins `rank_offset`
    bytes into the slot, and there the segments lie one after the other. Spans that are neighbours on both sides are
    merged.

    Args:
        segments: the rank's segments of the group, checked by `check_segments`.
        blocks: engine block ids, each below the block count that was checked.
        slots: slot numbers, position by position.
        slot_bytes, extent_bytes: sizes of the slots and of the extents of the host pool.
        rank_offset: 0 when the group is replicated, rank * block_bytes otherwise.
    """
    fused = _fuse(segments)
    block = np.asarray(blocks, dtype=np.int64)
    extent, position = np.divmod(np.asarray(slots, dtype=np.int64), extent_bytes // slot_bytes)
    part = extent * extent_bytes + position * slot_bytes + rank_offset
    size = np.array([segment.size_bytes for segment in fused], dtype=np.int64)
    offset = np.array([segment.offset_bytes for segment in fused], dtype=np.int64)
    stride = np.array([segment.stride_bytes for segment in fused], dtype=np.int64)
    number = np.repeat(np.arange(len(block), dtype=np.int64), len(fused))
    spans = Spans(
        region=np.tile(np.array([s.region for s in fused], dtype=np.int64), len(block)),
        region_offset=(block[:, np.newaxis] * stride + offset).ravel(),
        pool_offset=(part[:, np.newaxis] + np.cumsum(size) - size).ravel(),
        length=np.tile(size, len(block)),
        first_block=number,
        last_block=number,
    )
    return _merge_runs(spans) if len(fused) == 1 else spans


def _fuse(segments: Sequence[Segment]) -> list[Segment]:
    """Merge segments that follow each other in every block; in the slot they always do."""
    fused: list[Segment] = []
    for segment in segments:
        last = fused[-1] if fused else None
        if (
            last is not None
            and last.region == segment.region
            and last.stride_bytes == segment.stride_bytes
            and last.offset_bytes + last.size_bytes == segment.offset_bytes
        ):
            size = last.size_bytes + segment.size_bytes
            fused[-1] = Segment(last.region, last.offset_bytes, last.stride_bytes, size)
        else:
            fused.append(segment)
    return fused


def _merge_runs(spans: Spans) -> Spans:
    """Merge whole blocks of one size in one region that are neighbours on both sides."""
    if not len(spans):
        return spans
    block_bytes = spans.length[0]
    region_step, pool_step = np.diff(spans.region_offset), np.diff(spans.pool_offset)
    apart = (region_step != block_bytes) | (pool_step != block_bytes)
    first = np.concatenate(([0], np.flatnonzero(apart) + 1))
    last = np.append(first[1:], len(spans)) - 1
    length = (last - first + 1) * block_bytes
    return replace(_select(spans, first), length=length, last_block=last)


def join_spans(parts: Sequence[Spans]) -> Spans:
    """Put the spans of several groups of one copy behind each other.

    The block indices of each part are shifted by the number of blocks of the parts before it. At least one part.
    """
    counts = np.array([part.block_count for part in parts], dtype=np.int64)
    shift = np.repeat(np.cumsum(counts) - counts, [len(part) for part in parts])
    return Spans(
        region=np.concatenate([part.region for part in parts]),
        region_offset=np.concatenate([part.region_offset for part in parts]),
        pool_offset=np.concatenate([part.pool_offset for part in parts]),
        length=np.concatenate([part.length for part in parts]),
        first_block=np.concatenate([part.first_block for part in parts]) + shift,
        last_block=np.concatenate([part.last_block for part in parts]) + shift,
    )


def cut(spans: Spans, piece_bytes: int) -> Iterator[Spans]:
    """Yield the spans in order, in pieces of at most `piece_bytes`.

    A longer span is split, between its blocks if it has several, and inside a block only if the block is too long.
    """
    block_bytes = _block_bytes(spans)
    small = _split(spans, block_bytes * np.maximum(1, piece_bytes // block_bytes))
    small = _split(small, np.full(len(small), piece_bytes))
    end = np.cumsum(small.length)
    start, done = 0, 0
    while start < len(small):
        stop = int(np.searchsorted(end, done + piece_bytes, side="right"))
        yield _select(small, slice(start, stop))
        start, done = stop, int(end[stop - 1])


def without_blocks(spans: Spans, blocks: Sequence[int]) -> Spans:
    """Leave out the blocks with these indices; what remains keeps its block indices."""
    single = _split(spans, _block_bytes(spans))
    return _select(single, ~np.isin(single.first_block, np.asarray(blocks, dtype=np.int64)))


def _block_bytes(spans: Spans) -> Offsets:
    """Bytes of each block that a span covers, or of its part of a block."""
    return spans.length // (spans.last_block - spans.first_block + 1)


def _split(spans: Spans, most_bytes: Offsets) -> Spans:
    """Split each span into parts of at most so many bytes; a span of several blocks is split between blocks only."""
    counts = -(-spans.length // most_bytes)
    if (counts == 1).all():
        return spans
    whole = _select(spans, np.repeat(np.arange(len(spans)), counts))
    most = np.repeat(most_bytes, counts)
    part = np.arange(len(whole)) - np.repeat(np.cumsum(counts) - counts, counts)
    offset = part * most
    length = np.minimum(most, whole.length - offset)
    block_bytes = _block_bytes(whole)
    return replace(
        whole,
        region_offset=whole.region_offset + offset,
        pool_offset=whole.pool_offset + offset,
        length=length,
        first_block=whole.first_block + offset // block_bytes,
        last_block=whole.first_block + (offset + length - 1) // block_bytes,
    )


def _select(spans: Spans, where: npt.NDArray[np.generic] | slice) -> Spans:
    return Spans(
        region=spans.region[where],
        region_offset=spans.region_offset[where],
        pool_offset=spans.pool_offset[where],
        length=spans.length[where],
        first_block=spans.first_block[where],
        last_block=spans.last_block[where],
    )
