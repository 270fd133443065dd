"""Where the bytes of a transfer lie: layout, engine block ids and slots become byte spans, merged and bounds-checked.

Pure arithmetic on numpy arrays, one call per transfer and rank. Nothing here knows who asked or whether it is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
