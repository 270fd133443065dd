"""Which pool sizes to try, and which of those that were tried is large enough."""

from collections.abc import Iterator, Mapping
from itertools import islice

RUNGS = 16
"""Sizes below the footprint that are tried; they span a factor of about 256."""


def ladder(footprint_bytes: int, block_bytes: int) -> list[int]:
    """Pool sizes to try, ascending, in bytes: the footprint, and below it those in which memory is sold.

    Args:
        footprint_bytes: size of a pool that holds everything.
        block_bytes: size of a block; no smaller pool is tried.
    """
    sizes = [size for size in islice(_below(footprint_bytes), RUNGS) if size >= block_bytes]
    return [*reversed(sizes), footprint_bytes]


def _below(size_bytes: int) -> Iterator[int]:
    """1, 1.5, 2, 3, 4, 6, 8, 12 ... from the largest below `size_bytes` down."""
    power = 1 << size_bytes.bit_length()
    while power > 1:
        for size in (power, power // 4 * 3):
            if size < size_bytes:
                yield size
        power //= 2


def enough(hit_ratios: Mapping[int, float], ceiling: float, margin: float) -> int | None:
    """The pool size from which on more memory hardly helps.

    Args:
        hit_ratios: for each pool size that was tried.
        ceiling: hit ratio of a pool that never evicts.
        margin: by how much a hit ratio may lie below it.

    Returns:
        The smallest size that was tried which, like all larger ones, is that close to the ceiling; None if the largest
        is not.
    """
    found = None
    for size in sorted(hit_ratios, reverse=True):
        if hit_ratios[size] < ceiling - margin:
            break
        found = size
    return found
