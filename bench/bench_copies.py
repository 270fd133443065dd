"""Copies through the host device against plain memcpy of the same bytes over the same memory.

Blocks lie scattered in engine memory and in one run of slots, as a store that gathers and a load that scatters find
them. Timed in turn, over memory that is there already:

- `memcpy_loop`: a loop of memcpy over the blocks in C, one thread: the kernel, told never to bypass the caches. What
  the targets are about. Where the kernel was not compiled, `memcpy_calls` takes its place.
- `memcpy_calls`: the same loop in Python, a call for each block.
- `memcpy_once`: everything in one call, as if nothing were scattered. No target, but a bound of the machine.
- `device_1`, `device_2`: the host device with one and two threads, from `submit` to `end`. The plan of the spans is
  not timed.
- `device_numpy`: the device with one thread and without the compiled kernel.

Each counts with the fastest of its rounds, since what else runs on the machine only ever slows.
"""

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from rich.table import Table

from kvstow.server.core.spans import Segment, Spans, plan_spans
from kvstow.server.device.base import Copy, Direction, Region
from kvstow.server.device.handles import SharedMemoryHandle
from kvstow.server.device.host import HostDevice
from kvstow.server.device.kernel import LIBRARY, Memory, NativeKernel, NumpyKernel, Regions
from kvstow.server.device.pool import HostPool

from .goals import Goal
from .part import Part
from .scale import Scale

BLOCK_BYTES = tuple(size << 10 for size in (16, 64, 256, 1024, 4096))
WORKING_SETS = {Scale.FULL: 256 << 20, Scale.QUICK: 256 << 20, Scale.TINY: 8 << 20}
"""Bytes on either side; far beyond the caches of one processor."""

ROUNDS = {Scale.FULL: 25, Scale.QUICK: 6, Scale.TINY: 1}
NEVER = 1 << 62

TARGETS = {16 << 10: 0.8}  # device_1 to the loop, by block size; for all others:
TARGET = 0.9

Attached: TypeAlias = tuple[HostDevice, Region]


class Owner:
    """Waits for the end of one copy."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._failures: Sequence[tuple[int, str]] = ()

    def start(self) -> bool:
        return True

    def abandoned(self) -> bool:
        return False

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        self._failures = failures
        self._ended.set()

    def wait(self) -> None:
        self._ended.wait()
        if self._failures:
            raise RuntimeError(f"blocks failed: {self._failures[:3]}")


@dataclass(frozen=True)
class Work:
    """One block size and direction, over memory that is there already."""

    block_bytes: int
    direction: Direction
    pool: Memory
    engine: Memory
    rounds: int

    @property
    def size_bytes(self) -> int:
        """The working set."""
        return len(self.engine.view)

    def spans(self) -> Spans:
        count = self.size_bytes // self.block_bytes
        blocks = np.random.default_rng(0).permutation(count)
        segment = Segment(0, 0, self.block_bytes, self.block_bytes)
        return plan_spans(
            [segment], blocks.tolist(), range(count), self.block_bytes, self.size_bytes, 0
        )

    def ways(self, devices: dict[str, Attached]) -> dict[str, Callable[[], None]]:
        """What is timed, by name."""
        spans = self.spans()
        pool = self.pool.address + spans.pool_offset
        engine = self.engine.address + spans.region_offset
        store = self.direction is Direction.STORE
        target, source = (pool, engine) if store else (engine, pool)
        blocks = list(zip(target.tolist(), source.tolist(), spans.length.tolist(), strict=True))
        whole = (int(target.min()), int(source.min()), self.size_bytes)

        def memcpy_once() -> None:
            ctypes.memmove(*whole)

        def memcpy_calls() -> None:
            for block in blocks:
                ctypes.memmove(*block)

        ways = {"memcpy_once": memcpy_once, "memcpy_calls": memcpy_calls}
        if LIBRARY.exists():
            plain = NativeKernel(LIBRARY, stream_from_bytes=NEVER)
            ways["memcpy_loop"] = lambda: self._plain(plain, spans)
        for name, (device, region) in devices.items():
            ways[name] = self._through(device, region, spans)
        return ways

    def _plain(self, kernel: NativeKernel, spans: Spans) -> None:
        kernel.copy(self.direction, self.pool, Regions.of([self.engine]), spans)

    def _through(self, device: HostDevice, region: Region, spans: Spans) -> Callable[[], None]:
        def copy() -> None:
            owner = Owner()
            device.submit(Copy(1, 1, 0, self.direction, [region], spans, owner))
            owner.wait()

        return copy

    def measure(self, devices: dict[str, Attached]) -> dict[str, Any]:
        """Time all ways in turn, round by round."""
        ways = self.ways(devices)
        rounds = [{name: _seconds(way) for name, way in ways.items()} for _ in range(self.rounds)]
        self._check()
        speeds = {name: self.size_bytes / min(r[name] for r in rounds) / 1e9 for name in ways}
        loop = speeds.get("memcpy_loop", speeds["memcpy_calls"])
        target = TARGETS.get(self.block_bytes, TARGET)
        return {
            "block_bytes": self.block_bytes,
            "direction": self.direction.value,
            "gigabytes_per_second": speeds,
            "ratio_to_loop": {name: speeds[name] / loop for name in devices},
            "ratio_to_once": {name: speeds[name] / speeds["memcpy_once"] for name in devices},
            "target": target,
            "met": speeds["device_1"] / loop >= target,
        }

    def _check(self) -> None:
        """The device came last: what it was to copy is where it belongs."""
        spans = self.spans()
        for k in range(0, len(spans), max(1, len(spans) // 100)):
            host = self.pool.view[int(spans.pool_offset[k]) :][: self.block_bytes]
            engine = self.engine.view[int(spans.region_offset[k]) :][: self.block_bytes]
            if not np.array_equal(host, engine):
                raise RuntimeError(f"block {k} differs after a {self.direction.value}")


def _seconds(way: Callable[[], None]) -> float:
    began = time.perf_counter()
    way()
    return time.perf_counter() - began


@contextmanager
def _engine(size_bytes: int) -> Iterator[tuple[SharedMemoryHandle, npt.NDArray[np.uint8]]]:
    """Engine memory in a memfd, written to."""
    descriptor = os.memfd_create("bench-engine")
    try:
        os.ftruncate(descriptor, size_bytes)
        view = np.frombuffer(mmap.mmap(descriptor, 0), dtype=np.uint8)
        view.view(np.uint64)[:] = np.arange(size_bytes // 8, dtype=np.uint64)
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        yield SharedMemoryHandle(path, 0, size_bytes), view
    finally:
        os.close(descriptor)


@contextmanager
def _devices(pool: HostPool, handle: SharedMemoryHandle) -> Iterator[dict[str, Attached]]:
    """The devices that are timed, by name; all copy between the same memory."""
    made = {
        "device_1": HostDevice(pool, copy_threads=1),
        "device_2": HostDevice(pool, copy_threads=2),
        "device_numpy": HostDevice(pool, copy_threads=1, kernel=NumpyKernel()),
    }
    try:
        yield {
            name: (device, device.open_region(handle, session=1)) for name, device in made.items()
        }
    finally:
        for device in made.values():
            device.close()


def parts(scale: Scale) -> list[Part]:
    """The only part."""
    return [Part("copies", partial(run, WORKING_SETS[scale], ROUNDS[scale]))]


def run(size_bytes: int, rounds: int) -> dict[str, Any]:
    """Measure all block sizes in both directions.

    Args:
        size_bytes: the working set.
        rounds: how often everything is repeated.
    """
    pool = HostPool(size_bytes)
    pool.populate(lambda done_bytes: None, 2)
    with _engine(size_bytes) as (handle, view), _devices(pool, handle) as devices:
        engine = Memory.of(view)
        rows = [
            Work(block_bytes, direction, pool.memory, engine, rounds).measure(devices)
            for block_bytes in BLOCK_BYTES
            for direction in Direction
        ]
        kernel = devices["device_1"][0].kernel_name
    return {
        "kernel": kernel,
        "working_set_bytes": size_bytes,
        "huge_page_bytes": pool.huge_page_bytes(),
        "rounds": rounds,
        "rows": rows,
    }


def tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """Show speeds in GB/s, and the ratios that matter."""
    (result,) = results
    ways = list(result["rows"][0]["gigabytes_per_second"])
    shown = Table(
        title=f"copies in GB/s, {result['kernel']} kernel; device_1 to memcpy_loop and _once"
    )
    for name in ("KiB", "direction", *ways, "to loop", "target", "to once"):
        shown.add_column(name, justify="right")
    for row in result["rows"]:
        shown.add_row(
            str(row["block_bytes"] >> 10),
            row["direction"],
            *(f"{row['gigabytes_per_second'][way]:.1f}" for way in ways),
            f"[{'green' if row['met'] else 'red'}]{row['ratio_to_loop']['device_1']:.2f}[/]",
            f"{row['target']:.2f}",
            f"{row['ratio_to_once']['device_1']:.2f}",
        )
    return [shown]


def goals(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """One thread is about as fast as a loop of memcpy over the same blocks."""
    return [
        Goal(
            f"copies: {row['direction']} of {row['block_bytes'] >> 10} KiB blocks to a memcpy loop",
            row["ratio_to_loop"]["device_1"],
            row["target"],
            at_least=True,
        )
        for row in results[0]["rows"]
    ]
