"""Decides where the engine's keys and values lie: in one file of shared memory under /dev/shm.

    [layer][block][key, value][token in block][KV head][element]       all float32, no gaps

So one block of one layer is one contiguous piece, the pieces of a layer follow each other at a
constant stride, and another process that knows the file's name can copy any block. Which block
belongs to whom is decided in `blocks`. One thread of the engine writes; whoever copies from
outside does so only in blocks that the engine keeps held.
"""

import fcntl
import mmap
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import torch

from examples.engine.prefix import BLOCK_TOKENS
from examples.engine.weights import Architecture

SHARED_MEMORY = Path("/dev/shm")
_NAME_PREFIX = "kvstow-engine-"


@dataclass(frozen=True, slots=True)
class KvLayout:
    """How the bytes lie.

    Attributes:
        layer_count: Layers of the model.
        block_count: Blocks per layer.
        kv_head_count: KV heads of a layer.
        head_dim: Elements per head and token.
    """

    layer_count: int
    block_count: int
    kv_head_count: int
    head_dim: int

    @classmethod
    def for_model(cls, architecture: Architecture, block_count: int) -> "KvLayout":
        """Lay out a cache of so many blocks for a model."""
        return cls(
            layer_count=architecture.layer_count,
            block_count=block_count,
            kv_head_count=architecture.kv_head_count,
            head_dim=architecture.head_dim,
        )

    @property
    def shape(self) -> tuple[int, int, int, int, int, int]:
        """The tensor's shape in elements."""
        heads = (self.kv_head_count, self.head_dim)
        return (self.layer_count, self.block_count, 2, BLOCK_TOKENS, *heads)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of one layer; also the stride from block to block."""
        return 2 * BLOCK_TOKENS * self.kv_head_count * self.head_dim * torch.float32.itemsize

    @property
    def layer_bytes(self) -> int:
        """Bytes of one layer; also the stride from layer to layer."""
        return self.block_count * self.block_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole cache."""
        return self.layer_count * self.layer_bytes


class KvMemory:
    """The shared-memory file with its tensor; its name is gone after `close`.

    The file is created with mode 0600 under a name never used before, and is locked as long as
    the process lives: that is how a later engine knows which files a killed one left behind.

    Args:
        layout: What the file must hold.

    Raises:
        OSError: /dev/shm has no room for it.
    """

    def __init__(self, layout: KvLayout) -> None:
        _unlink_abandoned_files()
        self.layout = layout
        self.path, self._descriptor = _create_locked_file()
        try:
            # Takes the pages now: an error here is better than SIGBUS at some later write.
            os.posix_fallocate(self._descriptor, 0, layout.size_bytes)
            mapping = mmap.mmap(self._descriptor, layout.size_bytes)
        except OSError:
            self.close()
            raise
        self.tensor = torch.frombuffer(mapping, dtype=torch.float32).view(layout.shape)

    def close(self) -> None:
        """Unlink the file; the bytes live on until the last process unmaps them."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _create_locked_file() -> tuple[Path, int]:
    """Create a file under a fresh name and lock it."""
    while True:
        path = SHARED_MEMORY / f"{_NAME_PREFIX}{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Between the two calls another engine may have taken the file for an abandoned one.
        if os.fstat(descriptor).st_nlink == 1:
            return path, descriptor
        os.close(descriptor)


def _unlink_abandoned_files() -> None:
    """Unlink the files of this user's engines that were killed: nobody holds their lock."""
    for path in SHARED_MEMORY.glob(f"{_NAME_PREFIX}*"):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # its engine lives
        finally:
            os.close(descriptor)
