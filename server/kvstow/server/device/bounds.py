"""The last look at a copy before addresses are made of it, common to all devices."""

from collections.abc import Sequence

import numpy as np

from kvstow.server.core.spans import Spans

from .base import DeviceError


def check_inside(spans: Spans, pool_bytes: int, region_bytes: Sequence[int]) -> None:
    """Refuse addresses outside the memory that is there: the spans were planned right, but a mistake here would be silent.

    Args:
        spans: what is to be copied; at least one.
        pool_bytes: size of the host pool.
        region_bytes: size of each region.

    Raises:
        DeviceError: a span lies outside.
    """
    sizes = np.array(region_bytes, dtype=np.int64)
    inside = (
        spans.region.min() >= 0
        and spans.region.max() < len(sizes)
        and spans.region_offset.min() >= 0
        and spans.pool_offset.min() >= 0
        and (spans.pool_offset + spans.length).max() <= pool_bytes
        and (sizes[spans.region] - spans.region_offset >= spans.length).all()
    )
    if not inside:
        raise DeviceError("a span lies outside its region or the host pool")
