"""Engine memory: in files or on GPUs of the driver model, and content that says which block of which rank it is."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kvstow.server.core.requests import GroupMemory, RankMemory
from kvstow.server.core.spans import Segment
from kvstow.server.core.types import Layout
from kvstow.server.device.handles import RankHandles, SharedMemoryHandle

from .driver_model_world import EngineProcess

SHARED_MEMORY = Path("/dev/shm")
KEY_BYTES = 16
FENCES = 64
"""More than transfers of one engine that are unfinished at a time."""

MOST_QUEUED = 16
GPU_OFFSET = 512
"""Where the memory of a rank begins in its allocation, as with tensors that are cut from larger ones."""


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A directory on tmpfs that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kvstow-test-", dir=SHARED_MEMORY) as name:
        yield Path(name)


def key(number: int, salt: str = "") -> bytes:
    """A block key."""
    return hashlib.sha256(f"{salt}/{number}".encode()).digest()[:KEY_BYTES]


def content(block_key: bytes, rank: int, group: int, size_bytes: int) -> bytes:
    """Bytes that no other block, rank or group has."""
    return hashlib.shake_128(block_key + bytes((rank, group))).digest(size_bytes)


class Rank(Protocol):
    """The memory of one rank, as its engine sees it.

    Attributes:
        groups: where the blocks lie.
    """

    groups: list[GroupMemory]

    @property
    def memory(self) -> RankHandles:
        """As the daemon is told of it."""
        ...

    def write(self, group: int, block: int, data: bytes) -> None:
        """Fill one block; on a GPU some time before the next fence is reached."""
        ...

    def read(self, group: int, block: int) -> bytes:
        """The bytes of one block."""
        ...

    def record(self, fence: int) -> None:
        """Let a fence stand for everything written until now, if there are fences."""
        ...


class RankBytes:
    """Blocks in some memory, in which each segment of each group has its own stretch.

    Args:
        layout: of the space.
        block_count: blocks per group.
    """

    def __init__(self, layout: Layout, block_count: int) -> None:
        self.groups: list[GroupMemory] = []
        offset = 0
        for group in layout.groups:
            segments = []
            for size_bytes in group.segment_bytes:
                segments.append(Segment(0, offset, size_bytes, size_bytes))
                offset += size_bytes * block_count
            self.groups.append(GroupMemory(block_count, tuple(segments)))
        self.size_bytes = offset
        self.view: npt.NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)

    def fill(self, group: int, block: int, data: bytes) -> None:
        """Fill one block."""
        done = 0
        for segment in self.groups[group].segments:
            start = segment.offset_bytes + block * segment.stride_bytes
            part = data[done : done + segment.size_bytes]
            self.view[start : start + segment.size_bytes] = np.frombuffer(part, dtype=np.uint8)
            done += segment.size_bytes

    def read(self, group: int, block: int) -> bytes:
        """See `Rank.read`."""
        parts = []
        for segment in self.groups[group].segments:
            start = segment.offset_bytes + block * segment.stride_bytes
            parts.append(self.view[start : start + segment.size_bytes].tobytes())
        return b"".join(parts)


class RankFile(RankBytes):
    """The memory of one rank in a file.

    Args:
        directory: on tmpfs.
        layout, block_count: see `RankBytes`.
    """

    def __init__(self, directory: Path, layout: Layout, block_count: int) -> None:
        super().__init__(layout, block_count)
        descriptor, name = tempfile.mkstemp(prefix="rank-", dir=directory)
        os.truncate(descriptor, self.size_bytes)
        os.close(descriptor)
        self.path = Path(name)
        self.view = np.memmap(self.path, dtype=np.uint8, mode="r+")

    @property
    def memory(self) -> RankHandles:
        """See `Rank.memory`."""
        handle = SharedMemoryHandle(str(self.path), 0, self.size_bytes)
        return RankMemory((handle,), tuple(self.groups))

    def write(self, group: int, block: int, data: bytes) -> None:
        """See `Rank.write`: at once."""
        self.fill(group, block, data)

    def record(self, fence: int) -> None:
        """See `Rank.record`: the call itself is the fence."""


class RankGpu(RankBytes):
    """The memory of one rank on a GPU, written by kernels that run when the model lets them.

    Args:
        process: the engine's.
        layout, block_count: see `RankBytes`.
        gpu: number of the GPU.
    """

    def __init__(
        self, process: EngineProcess, layout: Layout, block_count: int, gpu: int = 0
    ) -> None:
        super().__init__(layout, block_count)
        self.process = process
        self.allocation = process.allocate(GPU_OFFSET + self.size_bytes, gpu)
        self.view = self.allocation.view[GPU_OFFSET:]
        self.stream = process.stream(gpu)
        self._fences = [process.event(gpu) for _ in range(FENCES)]

    @property
    def memory(self) -> RankHandles:
        """See `Rank.memory`."""
        handle = self.process.handle(self.allocation, GPU_OFFSET, self.size_bytes)
        events = tuple(handle for _, handle in self._fences)
        return RankMemory((handle,), tuple(self.groups), events)

    def write(self, group: int, block: int, data: bytes) -> None:
        """See `Rank.write`; an engine is never very far ahead of its GPU."""
        if len(self.stream.queue) > MOST_QUEUED:
            self.process.synchronize(self.stream)
        self.process.launch(self.stream, lambda: self.fill(group, block, data), steps=2)

    def record(self, fence: int) -> None:
        """See `Rank.record`."""
        self.process.record(self._fences[fence][0], self.stream)
