"""Decides who owns which block of the engine's KV cache, and which named blocks can be found.

A block is held by everyone who counts on its bytes: a running sequence, a transfer that copies
from it or into it. It is free when nobody holds it. A free block keeps its name, and so its bytes
can be found again, until it is handed out for something else.

    free --take--> held, unnamed --name--> held, named --release--> free, named --share--> held
                        |                                                 |
                        +--release--> free, unnamed            take: the name is forgotten

What a name means is decided in `prefix`; where the bytes lie, in `memory`. One thread only.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence


class OutOfBlocks(Exception):
    """More blocks are wanted than are free; nothing was taken."""

    def __init__(self, wanted: int, free: int) -> None:
        super().__init__(f"{wanted} blocks wanted, {free} are free")
        self.wanted = wanted
        self.free = free


class BlockAllocator:
    """Hold counts, names, and the order in which free blocks are handed out.

    Args:
        block_count: Blocks there are; they are numbered from 0.
    """

    def __init__(self, block_count: int) -> None:
        self._holds = [0] * block_count
        # In the order of handing out: blocks without a name first, then the longest released.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(block_count))
        self._block_by_hash: dict[bytes, int] = {}
        self._hash_by_block: dict[int, bytes] = {}

    @property
    def free_count(self) -> int:
        """Blocks that nobody holds, named ones included."""
        return len(self._free)

    def take(self, count: int) -> list[int]:
        """Hand out free blocks, each with one hold; their old names are forgotten.

        Raises:
            OutOfBlocks: Fewer are free; nothing was changed.
        """
        if count > len(self._free):
            raise OutOfBlocks(count, len(self._free))
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._holds[block] = 1
            self._forget(block)
        return taken

    def share(self, hashes: Sequence[bytes]) -> list[int]:
        """Hold the blocks of the longest leading run of hashes that is here."""
        shared: list[int] = []
        for block_hash in hashes:
            block = self._block_by_hash.get(block_hash)
            if block is None:
                break
            self._free.pop(block, None)
            self._holds[block] += 1
            shared.append(block)
        return shared

    def hold(self, blocks: Iterable[int]) -> None:
        """Add a hold to blocks that are held already."""
        for block in blocks:
            assert self._holds[block] > 0, f"block {block} is free"
            self._holds[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Give back one hold of each block of a sequence.

        Its last blocks are handed out again before its first ones: a prefix without its tail is
        still of use, a tail without its head is not.
        """
        for block in reversed(blocks):
            assert self._holds[block] > 0, f"block {block} is free"
            self._holds[block] -= 1
            if self._holds[block] == 0:
                self._free[block] = None
                if block not in self._hash_by_block:
                    self._free.move_to_end(block, last=False)

    def name(self, block: int, block_hash: bytes) -> None:
        """Let a held block whose bytes are complete be found; the first of a name keeps it."""
        assert self._holds[block] > 0, f"block {block} is free"
        if block_hash not in self._block_by_hash and block not in self._hash_by_block:
            self._block_by_hash[block_hash] = block
            self._hash_by_block[block] = block_hash

    def forget_names(self) -> None:
        """Make every block unfindable; holds stay."""
        self._block_by_hash.clear()
        self._hash_by_block.clear()

    def check(self) -> None:
        """Verify that holds, free order and names agree."""
        assert min(self._holds) >= 0
        assert set(self._free) == {b for b, holds in enumerate(self._holds) if holds == 0}
        assert {b: h for h, b in self._block_by_hash.items()} == self._hash_by_block

    def _forget(self, block: int) -> None:
        block_hash = self._hash_by_block.pop(block, None)
        if block_hash is not None:
            del self._block_by_hash[block_hash]
