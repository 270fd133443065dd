"""What the tests of all devices need: owners that remember, engine memory, and copies of it."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvstow.server.core.spans import Segment, Spans, plan_spans
from kvstow.server.device.base import (
    Copy,
    CopyOwner,
    Device,
    Direction,
    Fence,
    Region,
)
from kvstow.server.device.handles import Handle, SharedMemoryHandle
from support.driver_model_world import EngineProcess
from support.waiting import DEADLINE_S

SESSION = 1
"""Whose memory it is, where a test does not care."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class End:
    """What the owner of a copy was told at its end."""

    rank: int
    failures: list[tuple[int, str]]
    copied_bytes: int
    seconds: float

    @property
    def failed(self) -> list[int]:
        return [block for block, _ in self.failures]


class Recorder:
    """The owner of a copy: remembers what it was told, and can be waited for."""

    def __init__(self, *, wanted: bool = True) -> None:
        self.wanted = wanted
        self._told = threading.Condition()
        self._abandoned = threading.Event()
        self.start_count = 0
        self.ends: list[End] = []

    def start(self) -> bool:
        with self._told:
            self.start_count += 1
            self._told.notify_all()
        return self.wanted

    def abandoned(self) -> bool:
        return self._abandoned.is_set()

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        with self._told:
            self.ends.append(End(rank, list(failures), copied_bytes, seconds))
            self._told.notify_all()

    def abandon(self) -> None:
        self._abandoned.set()

    def wait_start(self) -> None:
        with self._told:
            assert self._told.wait_for(lambda: self.start_count, DEADLINE_S), "never started"

    def wait_end(self) -> End:
        with self._told:
            assert self._told.wait_for(lambda: self.ends, DEADLINE_S), "never ended"
            return self.ends[0]


class EngineMemory(Protocol):
    """Memory of an engine, as the engine sees it."""

    @property
    def handle(self) -> Handle: ...

    def read(self) -> Bytes: ...

    def write(self, content: Bytes) -> None: ...


class EngineFile:
    """Engine memory in a file."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        path.write_bytes(bytes(size_bytes))
        self.path = path
        self.handle = SharedMemoryHandle(str(path), 0, size_bytes)
        self._view: Bytes = np.memmap(path, dtype=np.uint8, mode="r+")

    def read(self) -> Bytes:
        return self._view.copy()

    def write(self, content: Bytes) -> None:
        self._view[:] = content


class GpuMemory:
    """Engine memory on a GPU of the driver model, somewhere in an allocation."""

    def __init__(
        self, engine: EngineProcess, size_bytes: int, offset_bytes: int = 512, gpu: int = 0
    ) -> None:
        self.allocation = engine.allocate(offset_bytes + size_bytes + 512, gpu)
        self.handle = engine.handle(self.allocation, offset_bytes, size_bytes)
        self._view = self.allocation.view[offset_bytes : offset_bytes + size_bytes]

    def read(self) -> Bytes:
        return self._view.copy()

    def write(self, content: Bytes) -> None:
        self._view[:] = content


def open_files() -> set[tuple[int, int]]:
    """The files that descriptors of this process stand for, by device and inode."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them, or one that another thread has closed
            status = os.fstat(int(descriptor))
            found.add((status.st_dev, status.st_ino))
    return found


def random_bytes(size_bytes: int, seed: int = 0) -> Bytes:
    """Content that is not equal to itself elsewhere."""
    return np.random.default_rng(seed).integers(0, 256, size_bytes, dtype=np.uint8)


def blocks_in_a_row(block_count: int, block_bytes: int) -> Spans:
    """Blocks 0, 1, ... in region 0 and in the slots of the same numbers: one span if there are any."""
    numbers = range(block_count)
    segment = Segment(0, 0, block_bytes, block_bytes)
    extent_bytes = block_bytes * max(1, block_count)
    return plan_spans([segment], numbers, numbers, block_bytes, extent_bytes, 0)


def make_copy(
    owner: CopyOwner,
    direction: Direction,
    spans: Spans,
    regions: Sequence[Region] = (),
    *,
    session: int = 1,
    transfer: int = 1,
    rank: int = 0,
    fence: Fence | None = None,
) -> Copy:
    """A copy with the numbers that a test does not care about filled in."""
    return Copy(session, transfer, rank, direction, regions, spans, owner, fence)


@dataclass(frozen=True)
class Rig:
    """A device under test, its host pool, and engine memory that it can open."""

    device: Device
    pool: Bytes
    allocate: Callable[[int], EngineMemory]

    def store(self, owner: CopyOwner, spans: Spans, regions: Sequence[Region]) -> None:
        self.device.submit(make_copy(owner, Direction.STORE, spans, regions))

    def load(self, owner: CopyOwner, spans: Spans, regions: Sequence[Region]) -> None:
        self.device.submit(make_copy(owner, Direction.LOAD, spans, regions))
