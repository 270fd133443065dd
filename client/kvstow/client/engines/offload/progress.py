"""Which blocks hold what they are named for, as far as steps that have ended have shown.

An engine names a block when it plans the step that fills it, and may take the request out of that
step again (a preemption by priority does), or end it before the step has ended. The block keeps its
name and is shared by it, whatever it holds. So that the engine uses a name proves nothing here. A block is confirmed when

- a request has computed tokens up to its end, standing on blocks that were confirmed themselves, or
- a load has brought its bytes (`EngineBlocks.confirm`),

and until it is handed out again. What a request began with may be computed in the very step in which
it begins, so that is judged when it has come further itself: no step that could still confirm it is
under way then. A request that began with a block which is not confirmed confirms none. Only the
engine's scheduler thread uses this.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .account import Name
from .blocks import EngineBlocks
from .requests import BlockTable, Tracked
from .shape import Shape


@dataclass(frozen=True, slots=True)
class Leaving:
    """Blocks of a request that was over before the steps that fill them had ended.

    Attributes:
        step: the last step that may write them.
        began_with: what must be confirmed first.
        contents: the blocks, and what they will hold.
    """

    step: int
    began_with: Sequence[tuple[int, Name]]
    contents: Sequence[tuple[int, Name]]


class Progress:
    """The progress of one engine.

    Args:
        shape: of its blocks.
        table: its block tables.
        blocks: where what is confirmed is noted.

    Attributes:
        step: the last one that was planned.
        ended_step: the last one that all workers have done.
    """

    def __init__(self, shape: Shape, table: BlockTable, blocks: EngineBlocks) -> None:
        self._shape = shape
        self._table = table
        self._blocks = blocks
        self._admitted: dict[str, tuple[Tracked, Sequence[Sequence[int]]]] = {}
        self._beginning: dict[str, Tracked] = {}
        self._leaving: list[Leaving] = []
        self.step = self.ended_step = 0

    def admit(self, tracked: Tracked, tables: Sequence[Sequence[int]]) -> None:
        """A request was given blocks, and begins with the step that is being planned."""
        tracked.begun_at = None
        tracked.is_sound = False
        tracked.confirmed.clear()
        self._forget(tracked)
        self._admitted[tracked.request.request_id] = tracked, tables

    def begin(self) -> None:
        """The step is planned and its blocks are handed out: what those who begin with it have by now, they began with."""
        for name, (tracked, tables) in self._admitted.items():
            if tracked.loading:
                continue  # it is admitted once more when it was loaded
            begun_at = tracked.begun_at = tracked.request.num_computed_tokens
            tracked.began_with = self._contents(tracked, tables, {}, begun_at)
            if not self._is_doubtful(tables, begun_at):
                self._beginning[name] = tracked
        self._admitted.clear()

    def confirm(self, requests: Iterable[Tracked]) -> None:
        """See what has been computed by these requests, which are all that are not over."""
        for tracked in requests:
            if tracked.is_sound:
                self._advance(tracked)
        for name, tracked in list(self._beginning.items()):
            if tracked.has_progressed:
                del self._beginning[name]
                self._judge(tracked)
        self._settle()

    def leave(
        self,
        tracked: Tracked,
        tables: Sequence[Sequence[int]],
        others: Iterable[Tracked],
    ) -> None:
        """A request is over, its blocks are its own still; the others are not over."""
        if tracked.is_sound:
            self._advance(tracked)
        elif tracked.has_progressed and tracked.request.request_id in self._beginning:
            self.confirm(others)  # which it may have begun with; it comes behind them
        self._forget(tracked)
        if tracked.request.num_in_flight_tokens and tracked.begun_at is not None:
            self._leaving.append(self._leave(tracked, tables))

    def _forget(self, tracked: Tracked) -> None:
        self._admitted.pop(tracked.request.request_id, None)
        self._beginning.pop(tracked.request.request_id, None)

    def _is_doubtful(self, tables: Sequence[Sequence[int]], tokens: int) -> bool:
        """Whether it begins in the middle of a block that was copied from what is not confirmed."""
        return any(
            self._blocks.is_doubtful(block)
            for table, shape in zip(tables, self._shape.groups, strict=True)
            if tokens % shape.block_tokens
            for block in table[tokens // shape.block_tokens :][:1]
        )

    def _contents(
        self,
        tracked: Tracked,
        tables: Sequence[Sequence[int]],
        starts: Mapping[int, int],
        tokens: int,
    ) -> list[tuple[int, Name]]:
        """What the full blocks of a request should hold, from some positions on, up to so many tokens."""
        contents: list[tuple[int, Name]] = []
        for group, (table, shape) in enumerate(zip(tables, self._shape.groups, strict=True)):
            start, stop = starts.get(group, 0), tokens // shape.block_tokens
            if start < stop:
                contents += self._named(tracked, group, start, table[start:stop])
        return contents

    def _named(
        self, tracked: Tracked, group: int, start: int, table: Sequence[int]
    ) -> Iterator[tuple[int, Name]]:
        """Blocks of one group from a position on, with their names."""
        stop = start + len(table)
        keys = self._shape.keys(tracked.request.block_hashes, group, start, stop)
        for block, key in zip(table, keys, strict=False):
            if block != self._shape.null_block:
                yield block, (group, key)

    def _judge(self, tracked: Tracked) -> None:
        tracked.is_sound = self._blocks.are_confirmed(tracked.began_with)
        if tracked.is_sound:
            tracked.began_with = ()  # not needed any more, and there may be thousands
            self._advance(tracked)

    def _advance(self, tracked: Tracked) -> None:
        tokens, request_id = tracked.computed_tokens, tracked.request.request_id
        for group, start in self._starts(tracked).items():
            stop = tokens // self._shape.groups[group].block_tokens
            if start < stop:
                table = self._table(request_id, group, start, stop)
                self._blocks.confirm(self._named(tracked, group, start, table))
                tracked.confirmed[group] = start + len(table)

    def _starts(self, tracked: Tracked) -> dict[int, int]:
        """For each group the first block that is not confirmed by the request."""
        begun_at = tracked.begun_at or 0
        return {
            group: tracked.confirmed.get(group, begun_at // shape.block_tokens)
            for group, shape in enumerate(self._shape.groups)
        }

    def _leave(self, tracked: Tracked, tables: Sequence[Sequence[int]]) -> Leaving:
        """Of its prompt alone: what follows may be drafts that are rejected."""
        request = tracked.request
        tokens = min(request.num_computed_tokens, request.num_prompt_tokens)
        return Leaving(
            self.step,
            () if tracked.is_sound else tracked.began_with,
            self._contents(tracked, tables, self._starts(tracked), tokens),
        )

    def _settle(self) -> None:
        leaving, self._leaving = self._leaving, []
        for left in leaving:
            if left.step > self.ended_step:
                self._leaving.append(left)
            elif self._blocks.are_confirmed(left.began_with):
                self._blocks.confirm(left.contents, left.step)
