"""Engine memory: files in shared memory, and content that says which block of which rank it is."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvstow.server.core.requests import GroupMemory, RankMemory
from kvstow.server.core.spans import Segment
from kvstow.server.core.types import Layout
from kvstow.server.device.handles import RankHandles, SharedMemoryHandle

SHARED_MEMORY = Path("/dev/shm")
KEY_BYTES = 16


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


class RankFile:
    """The memory of one rank: one file, in which each segment of each group has its own stretch.

    Args:
        directory: on tmpfs.
        layout: of the space.
        block_count: blocks per group.
    """

    def __init__(self, directory: Path, layout: Layout, block_count: int) -> None:
        self._layout = layout
        self._block_count = block_count
        self.groups: list[GroupMemory] = []
        offset = 0
        for group in layout.groups:
            segments = []
            for size_bytes in group.segment_bytes:
                segments.append(Segment(0, offset, size_bytes, size_bytes))
                offset += size_bytes * block_count
            self.groups.append(GroupMemory(block_count, tuple(segments)))
        descriptor, name = tempfile.mkstemp(prefix="rank-", dir=directory)
        os.truncate(descriptor, offset)
        os.close(descriptor)
        self.path = Path(name)
        self.size_bytes = offset
        self._view: npt.NDArray[np.uint8] = np.memmap(self.path, dtype=np.uint8, mode="r+")

    @property
    def memory(self) -> RankHandles:
        """As the daemon is told of it."""
        handle = SharedMemoryHandle(str(self.path), 0, self.size_bytes)
        return RankMemory((handle,), tuple(self.groups))

    def write(self, group: int, block: int, data: bytes) -> None:
        """Fill one block."""
        done = 0
        for segment in self.groups[group].segments:
            start = segment.offset_bytes + block * segment.stride_bytes
            part = data[done : done + segment.size_bytes]
            self._view[start : start + segment.size_bytes] = np.frombuffer(part, dtype=np.uint8)
            done += segment.size_bytes

    def read(self, group: int, block: int) -> bytes:
        """The bytes of one block."""
        parts = []
        for segment in self.groups[group].segments:
            start = segment.offset_bytes + block * segment.stride_bytes
            parts.append(self._view[start : start + segment.size_bytes].tobytes())
        return b"".join(parts)
