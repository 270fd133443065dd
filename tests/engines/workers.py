"""The workers of the simulated engine: they keep fences, compute values, and check what they attend to."""

from collections.abc import Sequence
from functools import partial

from engines.daemon import SimulatedSession
from engines.memory import Content, Memory
from engines.pool import NULL
from engines.request import Chunk
from kvstow.client import TransferState
from kvstow.client.engines.offload.board import BoardView
from kvstow.client.engines.offload.shape import Shape
from kvstow.client.engines.offload.steps import Step


class SimulatedWorkers:
    """All ranks at once.

    Args:
        trusting: they may be told to attend to what is not what the request's tokens make it. What they compute of it is
            garbage, too.
    """

    def __init__(
        self, shape: Shape, memory: Memory, session: SimulatedSession, trusting: bool
    ) -> None:
        self._trusting = trusting
        self._shape = shape
        self._memory = memory
        self._session = session

    def work(
        self,
        step: Step,
        handed_out: Sequence[int],
        chunks: Sequence[Chunk],
    ) -> None:
        """One step: fences first, then what was handed out is garbage, then tokens are computed."""
        self._keep_fences(step, set(handed_out))
        for block in handed_out:
            self._memory.write(block, Memory.GARBAGE)
        for chunk in chunks:
            is_right = all(map(partial(self._attend, chunk), range(len(self._shape.groups))))
            assert is_right or self._trusting, "attends to garbage"
            for group in range(len(self._shape.groups)):
                self._compute(chunk, group, is_right)

    def _keep_fences(self, step: Step, handed_out: set[int]) -> None:
        """End the stores that read what is overwritten; there must be a fence for each, and no other."""
        view = BoardView(step.board)
        readers = [copy for copy in self._session.copies if copy.suspected_blocks & handed_out]
        assert all(copy.is_store for copy in readers), "a block under a load was handed out"
        left = [number for number in step.fences if not view.wait(number, -1)]
        assert len(left) == len(readers), "fences are not those of the stores that need one"
        self._end_copies(handed_out)
        assert all(view.wait(number, -1) for number in step.fences)

    def _attend(self, chunk: Chunk, group: int) -> bool:
        """Whether all that is attended to is what the request's tokens make it; wrong guesses may lie behind it."""
        shape, tokens = self._shape.groups[group], chunk.tokens
        first = shape.first_needed(chunk.start)
        ends = [*range((first + 1) * shape.block_tokens, chunk.start + 1, shape.block_tokens)]
        if chunk.start % shape.block_tokens:
            ends.append(chunk.start)
        blocks = [chunk.tables[group][(end - 1) // shape.block_tokens] for end in ends]
        contents = map(self._memory.read, blocks)
        return all(
            (content.group, content.key[:end]) == (group, tokens[:end])
            for content, end in zip(contents, ends, strict=True)
        )

    def _compute(self, chunk: Chunk, group: int, is_right: bool) -> None:
        block_tokens, tokens = self._shape.groups[group].block_tokens, chunk.tokens
        for token in range(chunk.start, chunk.start + chunk.count):
            block = chunk.tables[group][token // block_tokens]
            version = self._memory.version
            if token % block_tokens:
                version = min(version, self._memory.read(block).version)
            if block != NULL:
                content = Content(group, tokens[: token + 1], version)
                self._memory.write(block, content if is_right else Memory.GARBAGE)

    def _end_copies(self, blocks: set[int]) -> None:
        for copy in list(self._session.copies):
            if copy.suspected_blocks & blocks:
                self._session.end(copy, TransferState.DONE)
