"""Decides how the engine's keys and values lie in its shared memory.

    [layer][block][key, value][token in block][KV head][element]       all float32, no gaps

So one block of one layer is one contiguous piece, and the pieces of a layer follow each other at a
constant stride: a daemon that opens the file can copy any block. Which block belongs to whom is
decided in `blocks`. One thread of the engine writes; whoever copies from outside does so only in
blocks that the engine keeps held.
"""

from dataclasses import dataclass

import torch

from examples.engine.prefix import BLOCK_TOKENS
from examples.engine.weights import Architecture
from kvstow.client import EngineMemory


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
    def piece_bytes(self) -> int:
        """Bytes of one block of one layer; also the stride from block to block."""
        return 2 * BLOCK_TOKENS * self.kv_head_count * self.head_dim * torch.float32.itemsize

    @property
    def layer_bytes(self) -> int:
        """Bytes of one layer; also the stride from layer to layer."""
        return self.block_count * self.piece_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole cache."""
        return self.layer_count * self.layer_bytes


class KvMemory:
    """The KV cache as a tensor over shared memory that a daemon can open; `close` unlinks it.

    Args:
        layout: What it must hold.

    Raises:
        OSError: /dev/shm has no room for it.
    """

    def __init__(self, layout: KvLayout) -> None:
        self.layout = layout
        self.shared = EngineMemory(layout.size_bytes)
        self.tensor = torch.frombuffer(self.shared.buffer, dtype=torch.float32).view(layout.shape)

    def close(self) -> None:
        """Unlink the file; the bytes live on until the last process unmaps them."""
        self.shared.close()
