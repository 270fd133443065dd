"""The workers of the simulated engine: they keep fences, compute values, and check what they attend to."""

from collections.abc import Sequence

from engines.daemon import SimulatedSession
from engines.memory import Content, Memory
from engines.pool import NULL
from engines.request import Request
from kvstow.client import TransferState
from kvstow.client.engines.offload.board import BoardView
from kvstow.client.engines.offload.shape import Shape
from kvstow.client.engines.offload.steps import Step


class SimulatedWorkers:
    """All ranks at once."""

    def __init__(self, shape: Shape, memory: Memory, session: SimulatedSession) -> None:
        self._shape = shape
        self._memory = memory
        self._session = session

    def work(
        self,
        step: Step,
        handed_out: Sequence[int],
        scheduled: Sequence[tuple[Request, int]],
    ) -> None:
        """One step: fences first, then what was handed out is garbage, then tokens are computed."""
        self._keep_fences(step, set(handed_out))
        for block in handed_out:
            self._memory.write(block, Memory.GARBAGE)
        for request, count in scheduled:
            for group, shape in enumerate(self._shape.groups):
                start = request.num_computed_tokens - count
                self._attend(request, group, shape.first_needed(start), start)
                self._compute(request, group, start, start + count)

    def _keep_fences(self, step: Step, handed_out: set[int]) -> None:
        """End the stores that read what is overwritten; there must be a fence for each, and no other."""
        view = BoardView(step.board)
        readers = [copy for copy in self._session.copies if copy.suspected_blocks & handed_out]
        assert all(copy.is_store for copy in readers), "a block under a load was handed out"
        left = [number for number in step.fences if not view.wait(number, -1)]
        assert len(left) == len(readers), "fences are not those of the stores that need one"
        self._end_copies(handed_out)
        assert all(view.wait(number, -1) for number in step.fences)

    def _attend(self, request: Request, group: int, first: int, tokens: int) -> None:
        """Whatever is attended to must be what the request's tokens make it."""
        block_tokens = self._shape.groups[group].block_tokens
        for position in range(first, tokens // block_tokens):
            content = self._memory.read(request.tables[group][position])
            key = request.tokens[: (position + 1) * block_tokens]
            assert content[:2] == (group, key), f"{content} instead of {(group, key)}"

    def _compute(self, request: Request, group: int, start: int, stop: int) -> None:
        block_tokens = self._shape.groups[group].block_tokens
        for token in range(start, stop):
            block = request.tables[group][token // block_tokens]
            version = self._memory.version
            if token % block_tokens:
                version = min(version, self._memory.read(block).version)
            if block != NULL:
                self._memory.write(block, Content(group, request.tokens[: token + 1], version))

    def _end_copies(self, blocks: set[int]) -> None:
        for copy in list(self._session.copies):
            if copy.suspected_blocks & blocks:
                self._session.end(copy, TransferState.DONE)
