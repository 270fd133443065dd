"""From spans to what the driver is told: addresses on both sides, as few of them as possible.

Pure arithmetic on numpy arrays, a fixed number of calls per piece whatever it holds. Nothing here knows a driver.

Neighbours that touch on both sides are one span already (`core.spans`). What is minded here is that no copy crosses a
boundary between two chunks of the host pool, because the driver refuses a copy from or to memory that was page-locked in more
than one call.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvstow.server.core.spans import Offsets, Spans
from kvstow.server.device.base import Direction

MAX_PITCH_BYTES = (1 << 31) - 1
"""Longest distance of rows (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Copies between the GPU and the host pool, all in one direction; arrays of equal length, contiguous, int64.

    Args:
        direction: store or load.
        device: addresses on the GPU.
        host: addresses in the host pool.
        size: bytes of each.
    """

    direction: Direction
    device: Offsets
    host: Offsets
    size: Offsets

    def __len__(self) -> int:
        return len(self.size)

    @property
    def targets(self) -> Offsets:
        """Where the copies go."""
        return self.host if self.direction is Direction.STORE else self.device

    @property
    def sources(self) -> Offsets:
        """Where they come from."""
        return self.device if self.direction is Direction.STORE else self.host


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Copies of several rows each, of equal length and distance: what a driver without batches takes.

    Args:
        direction: store or load.
        device, host: addresses of the first row.
        device_pitch, host_pitch: bytes from row to row.
        width: bytes of a row.
        height: how many rows.
    """

    direction: Direction
    device: Offsets
    host: Offsets
    device_pitch: Offsets
    host_pitch: Offsets
    width: Offsets
    height: Offsets

    def __len__(self) -> int:
        return len(self.height)


@dataclass(frozen=True, slots=True)
class HostChunks:
    """How the host pool lies in memory.

    Args:
        address: of its first byte.
        chunk_bytes: bytes that were page-locked in one call; no copy crosses a multiple of it.
    """

    address: int
    chunk_bytes: int


def make_batch(direction: Direction, spans: Spans, starts: Offsets, host: HostChunks) -> Batch:
    """Describe the copies of some spans.

    Args:
        direction: store or load.
        spans: what to copy.
        starts: addresses of the regions that `spans.region` indexes.
        host: where the pool lies.
    """
    ranges = _Ranges(spans.region, spans.region_offset, spans.pool_offset, spans.length)
    whole = _split(ranges, host.chunk_bytes)
    return Batch(
        direction,
        device=starts[whole.region] + whole.region_offset,
        host=host.address + whole.pool_offset,
        size=np.ascontiguousarray(whole.length),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Ranges:
    """Spans without their blocks."""

    region: Offsets
    region_offset: Offsets
    pool_offset: Offsets
    length: Offsets


def _split(ranges: _Ranges, chunk_bytes: int) -> _Ranges:
    """Cut ranges where a chunk of the pool ends."""
    start, end = ranges.pool_offset, ranges.pool_offset + ranges.length
    chunk = start // chunk_bytes
    counts = (end - 1) // chunk_bytes - chunk + 1
    if (counts == 1).all():
        return ranges
    which = np.repeat(np.arange(len(counts)), counts)
    part = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    edge = (chunk[which] + part) * chunk_bytes
    pool_offset = np.maximum(start[which], edge)
    length = np.minimum(end[which], edge + chunk_bytes) - pool_offset
    region_offset = ranges.region_offset[which] + pool_offset - start[which]
    return _Ranges(ranges.region[which], region_offset, pool_offset, length)


def as_rows(batch: Batch, host: HostChunks) -> Rows:
    """Find copies of one size that follow each other at equal distances on both sides, and make rows of them.

    The copies are put in the order of their addresses on the GPU first: those of one layer then stand together, one slot
    apart in the pool where the slots follow each other.
    """
    order = np.lexsort((batch.device, batch.size))
    device, at, size = batch.device[order], batch.host[order], batch.size[order]
    chunk = (at - host.address) // host.chunk_bytes
    first = np.flatnonzero(_begins(device, at, size, chunk))
    height = np.diff(np.append(first, len(size)))
    second = np.minimum(first + 1, len(size) - 1)
    several = height > 1
    return Rows(
        batch.direction,
        device=device[first],
        host=at[first],
        device_pitch=np.where(several, device[second] - device[first], size[first]),
        host_pitch=np.where(several, at[second] - at[first], size[first]),
        width=size[first],
        height=height,
    )


def _begins(
    device: Offsets, host: Offsets, size: Offsets, chunk: Offsets
) -> npt.NDArray[np.bool_]:
    """Tell which copies begin a group of rows.

    A copy belongs to the group of the one before it if both are of one size and in one chunk, and if it lies as far from
    it as that one from its own predecessor, on both sides, not less than its size and not more than the driver takes.
    """
    steps = np.stack((np.diff(device), np.diff(host)))
    joins = (np.diff(size) == 0) & (np.diff(chunk) == 0)
    joins &= ((steps >= size[1:]) & (steps <= MAX_PITCH_BYTES)).all(axis=0)
    alone = np.append(True, ~joins)  # nothing joins these to what is before them
    begins = alone.copy()
    begins[2:] |= (np.diff(steps) != 0).any(axis=0) & ~alone[1:-1]
    return begins
