"""The innermost loops move exactly their bytes; the native one survives memory that is gone, and only that."""

import ctypes
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device.conftest import native
from device.rig import random_bytes
from kvstow.server.core.spans import Offsets, Spans
from kvstow.server.device import kernel as kernel_module
from kvstow.server.device.base import DeviceError, Direction
from kvstow.server.device.kernel import (
    LIBRARY,
    CopyKernel,
    Fetch,
    Memory,
    NativeKernel,
    NumpyKernel,
    Regions,
    load_kernel,
)

PAGE = mmap.PAGESIZE
KERNELS = [
    *(
        pytest.param(partial(NativeKernel, LIBRARY, fetch=fetch), marks=native, id=fetch.name)
        for fetch in Fetch
    ),
    NumpyKernel,
]


def spans_of(rows: list[tuple[int, int, int]], region: list[int] | None = None) -> Spans:
    """Spans from (offset in the region, offset in the pool, length), one block each."""

    def column(values: list[int]) -> Offsets:
        return np.array(values, dtype=np.int64)

    number = column(list(range(len(rows))))
    return Spans(
        region=column([0] * len(rows) if region is None else region),
        region_offset=column([row[0] for row in rows]),
        pool_offset=column([row[1] for row in rows]),
        length=column([row[2] for row in rows]),
        first_block=number,
        last_block=number,
    )


LENGTHS = st.one_of(st.integers(1, 200), st.integers(4000, 4300), st.integers(8000, 20_000))


@pytest.mark.parametrize("make_kernel", KERNELS)
@pytest.mark.parametrize("direction", Direction)
@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), LENGTHS), max_size=6),
    seed=st.integers(0, 9),
)
def test_spans_of_any_length_and_alignment(
    make_kernel: Callable[[], CopyKernel],
    direction: Direction,
    rows: list[tuple[int, int, int]],
    seed: int,
) -> None:
    room = 1 << 15
    engine, host = random_bytes(8 * room, seed), random_bytes(8 * room, seed + 100)
    placed = [(k * room + a, k * room + b, length) for k, (a, b, length) in enumerate(rows)]
    expected_engine, expected_host = engine.copy(), host.copy()
    for a, b, length in placed:
        if direction is Direction.STORE:
            expected_host[b : b + length] = engine[a : a + length]
        else:
            expected_engine[a : a + length] = host[b : b + length]

    faulted = make_kernel().copy(
        direction, Memory.of(host), Regions.of([Memory.of(engine)]), spans_of(placed)
    )

    assert list(faulted) == []
    assert np.array_equal(host, expected_host)
    assert np.array_equal(engine, expected_engine)


@native
@pytest.mark.parametrize("fetch", Fetch)
@pytest.mark.parametrize("length", [64, PAGE])
@pytest.mark.parametrize("direction", Direction)
def test_memory_that_is_gone_fails_its_spans_and_no_others(
    direction: Direction, length: int, fetch: Fetch
) -> None:
    descriptor = os.memfd_create("engine")
    os.ftruncate(descriptor, 8 * PAGE)
    view = np.frombuffer(mmap.mmap(descriptor, 0), dtype=np.uint8)
    view[:] = 1
    whole = np.full(8 * PAGE, 2, dtype=np.uint8)
    os.ftruncate(descriptor, 3 * PAGE)
    rows = [(block * PAGE, block * PAGE, length) for block in range(8)]
    pool = np.zeros(8 * PAGE, dtype=np.uint8)
    spans = spans_of([*rows, (0, 0, length)], region=[0] * 8 + [1])

    faulted = NativeKernel(LIBRARY, fetch=fetch).copy(
        direction, Memory.of(pool), Regions.of([Memory.of(view), Memory.of(whole)]), spans
    )

    assert list(faulted) == [3, 4, 5, 6, 7]
    if direction is Direction.STORE:
        assert pool[: 3 * PAGE : PAGE].tolist() == [2, 1, 1]
        assert not pool[3 * PAGE :].any()
    else:
        assert view[: 3 * PAGE : PAGE].tolist() == [0, 0, 0]
        assert whole[0] == 0
    os.close(descriptor)


FAULT_ELSEWHERE = """
import mmap, os, numpy as np
from kvstow.server.device.kernel import LIBRARY, NativeKernel
NativeKernel(LIBRARY)
descriptor = os.memfd_create("x")
os.ftruncate(descriptor, 8192)
view = np.frombuffer(mmap.mmap(descriptor, 0), dtype=np.uint8)
os.ftruncate(descriptor, 0)
print(view[0])
"""
SIGNAL_FROM_OUTSIDE = """
import os, signal
from kvstow.server.device.kernel import LIBRARY, NativeKernel
NativeKernel(LIBRARY)
os.kill(os.getpid(), signal.SIGBUS)
"""


@native
@pytest.mark.parametrize("program", [FAULT_ELSEWHERE, SIGNAL_FROM_OUTSIDE])
@pytest.mark.parametrize("reports", [False, True])
def test_any_other_bus_error_goes_to_whoever_handled_it_before(
    program: str, reports: bool
) -> None:
    options = ["-X", "faulthandler"] if reports else []
    died = subprocess.run(
        [sys.executable, *options, "-c", program], capture_output=True, text=True, check=False
    )

    assert died.returncode == -signal.SIGBUS
    assert died.stdout == ""
    assert ("Fatal Python error: Bus error" in died.stderr) == reports


def test_numpy_copies_where_the_library_was_not_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_module, "LIBRARY", tmp_path / "absent.so")

    assert load_kernel().name == "numpy"


@native
def test_the_library_is_used_where_it_was_compiled() -> None:
    assert load_kernel().name == "native"


def test_a_broken_library_is_named(tmp_path: Path) -> None:
    library = tmp_path / "_copy_spans.so"
    library.write_text("not a library")

    with pytest.raises(DeviceError, match=f"cannot load {library}"):
        NativeKernel(library)


@pytest.mark.parametrize("fast", Fetch)
def test_what_is_faster_on_this_processor_is_taken(
    monkeypatch: pytest.MonkeyPatch, fast: Fetch
) -> None:
    """Where a copy takes three times as long now and then, and what is in the caches is read as fast in either way."""
    now, calls = 0, 0
    cached: set[int] = set()

    def copy_spans(_first: int, _count: int, target: int, source: int, *how: int) -> None:
        nonlocal now, calls
        calls += 1
        written, read = (ctypes.c_int64.from_address(column).value for column in (target, source))
        now += (2 if read in cached or how[-1] == fast else 3) * (1 if calls % 3 == 0 else 3)
        cached.add(read)
        cached.discard(written)

    monkeypatch.setattr(kernel_module, "_load", lambda _: copy_spans)
    monkeypatch.setattr(kernel_module, "thread_time_ns", lambda: now)
    assert kernel_module._fastest_fetch.__wrapped__(LIBRARY) is fast
