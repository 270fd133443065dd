"""How an engine's blocks are made up, and how far a hit reaches through all groups. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from kvstow.client.hits import GroupHits

READY = "R"


@dataclass(frozen=True, slots=True)
class GroupShape:
    """One KV cache group.

    Attributes:
        block_tokens: tokens in one block.
        window_tokens: how many of the latest tokens are attended to; 0 for all of them.
    """

    block_tokens: int
    window_tokens: int = 0

    def first_needed(self, tokens: int) -> int:
        """The first block that is still read when the token behind `tokens` is computed."""
        if not self.window_tokens:
            return 0
        return max(0, tokens - self.window_tokens + 1) // self.block_tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """All blocks of an engine.

    Attributes:
        groups: by their index.
        hash_tokens: tokens that one block hash covers; a block's key is the hash at its end.
        block_count: block ids run from 0 to block_count - 1 and name a block in one group at a time.
        null_block: stands in block tables where there is no block.
    """

    groups: tuple[GroupShape, ...]
    hash_tokens: int
    block_count: int
    null_block: int = 0

    @property
    def align_tokens(self) -> int:
        """Where a block ends in every group."""
        return lcm(*(group.block_tokens for group in self.groups))

    @property
    def has_windows(self) -> bool:
        """Whether a group attends to a window only."""
        return any(group.window_tokens for group in self.groups)

    def keys(self, hashes: Sequence[bytes], group: int, start: int, stop: int) -> list[bytes]:
        """Keys of the blocks from `start` to `stop` of one group."""
        step = self.groups[group].block_tokens // self.hash_tokens
        return list(hashes[(start + 1) * step - 1 : stop * step : step])

    def reach(self, start: int, end: int, found: Mapping[int, GroupHits]) -> int:
        """How many tokens can be had.

        Args:
            start, end: tokens; both on the boundary of a block in every group. The keys between
                them were looked up, with states for groups with a window.
            found: what the lookup said.

        Returns:
            The largest boundary at which every group has what it needs; `start` if there is none.
        """
        for number, group in enumerate(self.groups):
            if not group.window_tokens:
                end = min(end, start + found[number].hit_count * group.block_tokens)
        end = self._aligned(end)
        while end > start:
            gaps = [
                self._gap(number, start, end, found[number].states)
                for number, group in enumerate(self.groups)
                if group.window_tokens
            ]
            reached = min(gaps, default=end)
            if reached == end:
                return end
            end = self._aligned(reached)
        return start

    def _gap(self, number: int, start: int, end: int, states: str) -> int:
        """Where a hit ends at the latest because a block of the window is missing, or `end`."""
        group = self.groups[number]
        base = start // group.block_tokens
        first = max(group.first_needed(end), base)
        for block in range(end // group.block_tokens - 1, first - 1, -1):
            if states[block - base] != READY:
                return block * group.block_tokens
        return end

    def _aligned(self, tokens: int) -> int:
        return tokens - tokens % self.align_tokens
