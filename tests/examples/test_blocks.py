"""The block allocator against a model: a count of holds per block, and names."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from examples.engine.blocks import BlockAllocator, OutOfBlocks

BLOCK_COUNT = 6
HASHES = [bytes([number]) * 32 for number in range(8)]


class AllocatorMachine(RuleBasedStateMachine):
    """Sequences come and go; each is a list of blocks that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = BlockAllocator(BLOCK_COUNT)
        self.holders: list[list[int]] = []
        self.named: dict[bytes, int] = {}

    @property
    def held(self) -> set[int]:
        return {block for holder in self.holders for block in holder}

    @rule(count=st.integers(0, BLOCK_COUNT + 1))
    def take(self, count: int) -> None:
        free = BLOCK_COUNT - len(self.held)
        if count > free:
            with pytest.raises(OutOfBlocks):
                self.allocator.take(count)
            return
        taken = self.allocator.take(count)
        assert len(set(taken)) == count
        assert not self.held & set(taken)
        self.named = {h: block for h, block in self.named.items() if block not in taken}
        self.holders.append(taken)

    @rule(hashes=st.lists(st.sampled_from(HASHES), max_size=4, unique=True))
    def share(self, hashes: list[bytes]) -> None:
        expected = []
        for block_hash in hashes:
            if block_hash not in self.named:
                break
            expected.append(self.named[block_hash])
        assert self.allocator.share(hashes) == expected
        self.holders.append(expected)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), block_hash=st.sampled_from(HASHES))
    def name(self, data: st.DataObject, block_hash: bytes) -> None:
        block = data.draw(st.sampled_from(sorted(self.held)))
        self.allocator.name(block, block_hash)
        if block not in self.named.values():
            self.named.setdefault(block_hash, block)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(self.holders))
        self.allocator.hold(holder)
        self.holders.append(list(holder))

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.holders) - 1))
        self.allocator.release(self.holders.pop(place))

    @rule()
    def forget_names(self) -> None:
        self.allocator.forget_names()
        self.named = {}

    @invariant()
    def books_are_right(self) -> None:
        self.allocator.check()
        assert self.allocator.free_count == BLOCK_COUNT - len(self.held)


TestAllocator = AllocatorMachine.TestCase


def test_named_blocks_outlive_unnamed_ones_and_heads_outlive_tails() -> None:
    allocator = BlockAllocator(4)
    blocks = allocator.take(4)
    for block, block_hash in zip(blocks[:3], HASHES, strict=False):
        allocator.name(block, block_hash)
    allocator.release(blocks)
    assert allocator.take(2) == [blocks[3], blocks[2]]
    assert allocator.share(HASHES[:3]) == blocks[:2]
