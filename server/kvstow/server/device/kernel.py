"""The innermost loop: many byte spans copied between mapped memory in one call that gives up the GIL.

Two implementations: `NativeKernel`, the small C library that is compiled when the package is built, and `NumpyKernel`
for installations without it. The native one is faster (one call for all spans, stores that bypass the caches) and
outlives an engine that truncates its file in mid-copy; with numpy that kills the process.

Decided here: how spans become addresses. Any thread may copy at any time; that no two copies write the same bytes
is the ledger's business.
"""

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from time import thread_time_ns
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvstow.server.core.spans import Offsets, Spans

from .base import DeviceError, Direction

LIBRARY = Path(__file__).with_name("_copy_spans.so")

STREAM_FROM_BYTES = 4096
"""Spans of this size and more bypass the caches. The library does not take less: it looks so far ahead."""

PROBE_BYTES = 16 << 20
PROBE_SPAN_BYTES = 64 << 10
PROBE_ROUNDS = 5
"""What is copied in each way of fetching ahead, and how often, to see which one is fast: some 50 ms in all."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Mapped memory. It stays mapped while this object or its view lives.

    Args:
        view: its bytes.
        address: where it starts in this process.
    """

    view: npt.NDArray[np.uint8]
    address: int

    @classmethod
    def of(cls, view: npt.NDArray[np.uint8]) -> "Memory":
        """Describe the memory under an array."""
        return cls(view, int(view.ctypes.data))


@dataclass(frozen=True, slots=True, eq=False)
class Regions:
    """The regions of one copy, as `spans.region` numbers them.

    Args:
        views: their bytes; they stay mapped while these live.
        starts: their addresses.
    """

    views: Sequence[npt.NDArray[np.uint8]]
    starts: Offsets

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> "Regions":
        """Number some mapped memory."""
        starts = np.array([memory.address for memory in memories], dtype=np.int64)
        return cls([memory.view for memory in memories], starts)


class CopyKernel(Protocol):
    """Copies the spans of one piece."""

    @property
    def name(self) -> str:
        """Which implementation this is, for the start log."""
        ...

    def copy(
        self, direction: Direction, pool: Memory, regions: Regions, spans: Spans
    ) -> Sequence[int]:
        """Copy spans, and return the indices of those whose memory was gone when it was touched.

        The spans lie inside the pool and inside the regions: the caller has made sure of that.
        """
        ...


class Fetch(IntEnum):
    """How the library fetches ahead what it reads: to be used once, or into the second-level cache."""

    ONCE = 0
    KEEP = 1


class NativeKernel:
    """Calls the compiled library.

    Args:
        library: path of the shared object.
        stream_from_bytes: see STREAM_FROM_BYTES.
        fetch: how what is read is fetched ahead; None for the way that is faster on this processor.

    Raises:
        DeviceError: the library is there but cannot be used.
    """

    name = "native"

    def __init__(
        self,
        library: Path,
        stream_from_bytes: int = STREAM_FROM_BYTES,
        fetch: Fetch | None = None,
    ) -> None:
        self._copy_spans = _load(library)
        self._stream_from_bytes = stream_from_bytes
        self._fetch = _fastest_fetch(library) if fetch is None else fetch

    def copy(
        self, direction: Direction, pool: Memory, regions: Regions, spans: Spans
    ) -> Sequence[int]:
        """See `CopyKernel.copy`."""
        engine = regions.starts[spans.region] + spans.region_offset
        host = pool.address + spans.pool_offset
        length = np.ascontiguousarray(spans.length, dtype=np.int64)
        target, source = (host, engine) if direction is Direction.STORE else (engine, host)
        faulted: list[int] = []
        done = 0
        while done < len(spans):
            done = self._copy_spans(
                done,
                len(spans),
                target.ctypes.data,
                source.ctypes.data,
                length.ctypes.data,
                self._stream_from_bytes,
                self._fetch,
            )
            if done < len(spans):
                faulted.append(done)
                done += 1
        return faulted


class NumpyKernel:
    """Copies span by span with numpy, which gives up the GIL inside each span only."""

    name = "numpy"

    def copy(
        self, direction: Direction, pool: Memory, regions: Regions, spans: Spans
    ) -> Sequence[int]:
        """See `CopyKernel.copy`; here the process dies when memory is gone, so nothing is ever returned."""
        columns = (spans.region, spans.region_offset, spans.pool_offset, spans.length)
        for region, start, slot, length in zip(*(c.tolist() for c in columns), strict=True):
            engine = regions.views[region][start : start + length]
            host = pool.view[slot : slot + length]
            if direction is Direction.STORE:
                host[:] = engine
            else:
                engine[:] = host
        return ()


def load_kernel() -> CopyKernel:
    """The native kernel if it was compiled, else the one of numpy."""
    return NativeKernel(LIBRARY) if LIBRARY.exists() else NumpyKernel()


@functools.cache
def _load(library: Path) -> Callable[..., int]:
    """Load the library and let it catch bus errors, once per process.

    It hands on what is not its own to whoever handled bus errors before; so `faulthandler`, which does not know that
    a fault may be expected, is to be enabled before and not after.
    """
    try:
        loaded = ctypes.CDLL(str(library), use_errno=True)
        catch_bus_errors, copy_spans = loaded.catch_bus_errors, loaded.copy_spans
    except (OSError, AttributeError) as error:
        raise DeviceError(
            f"cannot load {library}: {error}; build it again, or remove it to copy with numpy"
        ) from error
    if catch_bus_errors() != 0:
        raise DeviceError(f"cannot catch bus errors: {os.strerror(ctypes.get_errno())}")
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    copy_spans.argtypes = (number, number, pointer, pointer, pointer, number, number)
    copy_spans.restype = number
    return copy_spans


@functools.cache
def _fastest_fetch(library: Path) -> Fetch:
    """Measure it, once per process: the one is nearly twice as fast as the other on some processors.

    Each copy reads what the one before has written past the caches: from a cache both ways are as fast. The time of the
    thread is compared, which does not go on while others have the processor.
    """
    copy_spans, count = _load(library), PROBE_BYTES // PROBE_SPAN_BYTES
    memories = [np.ones(PROBE_BYTES, dtype=np.uint8) for _ in range(2)]
    offsets = np.arange(count, dtype=np.int64) * PROBE_SPAN_BYTES
    written, read = (memory.ctypes.data + offsets for memory in memories)
    length = np.full(count, PROBE_SPAN_BYTES, dtype=np.int64)

    def took_ns(fetch: Fetch) -> int:
        nonlocal written, read
        written, read = read, written
        addresses = [column.ctypes.data for column in (written, read, length)]
        began = thread_time_ns()
        copy_spans(0, count, *addresses, STREAM_FROM_BYTES, fetch)
        return thread_time_ns() - began

    rounds = [{fetch: took_ns(fetch) for fetch in Fetch} for _ in range(PROBE_ROUNDS)]
    return min(Fetch, key=lambda fetch: min(took[fetch] for took in rounds))
