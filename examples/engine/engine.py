"""Decides what happens to one request: what is reused, what is computed, what is kept for later.

    1. The prompt's full blocks are named; those found here are shared, the others taken.
    2. What is not here is looked up in the external cache, and loaded before anything is computed.
    3. The rest of the prompt is computed, step by step, then tokens are decoded greedily; each
       block is named, and offered to the external cache, as soon as it is complete.

A block under a copy is held for that copy until the copy has ended, so it is never handed out
while bytes may still move, not even when the request is over or the copy is given up. When the
external cache has a new generation, what was named before is not found here either.

One thread only; the futures of the external cache may be completed by any.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from torch import Tensor

from examples.engine.blocks import BlockAllocator, OutOfBlocks
from examples.engine.external import ExternalCache, ExternalRequest
from examples.engine.memory import KvMemory
from examples.engine.model import Model
from examples.engine.prefix import BLOCK_TOKENS, blocks_for, chain_hashes
from examples.engine.request import Answer, Request, TooLong
from examples.engine.weights import Weights

COPY_BUDGET_S = 5.0
"""Seconds that a request waits for a copy, if the engine's maker says nothing else."""


@dataclass(slots=True)
class _Sequence:
    """One running request: its tokens, its blocks, and how far both are done.

    The first `complete_count` blocks hold their keys and values and have been named, the first
    `offered_count` were offered to the external cache, if there is one.
    """

    tokens: list[int]
    table: list[int]
    complete_count: int
    salt: bytes
    external: ExternalRequest | None
    offered_count: int = 0

    def hashes(self, token_count: int) -> list[bytes]:
        return chain_hashes(self.tokens[:token_count], self.salt)


class Engine:
    """Runs requests, one at a time, over one KV cache.

    Args:
        weights: The model.
        memory: The KV cache, laid out for the model.
        external: A cache that outlives the engine, if there is one.
        copy_budget_s: How long a request waits for a copy: for its load, before it computes
            instead; for any copy, when every block is held.
    """

    def __init__(
        self,
        weights: Weights,
        memory: KvMemory,
        external: ExternalCache | None = None,
        *,
        copy_budget_s: float = COPY_BUDGET_S,
    ) -> None:
        self.allocator = BlockAllocator(memory.layout.block_count)
        self._context_tokens = weights.architecture.context_tokens
        self._model = Model(weights, memory.tensor)
        self._external = external
        self._copy_budget_s = copy_budget_s
        self._generation: Hashable = None
        self._copies: dict[Future[bool], list[int]] = {}

    def warm_up(self) -> None:
        """Compute something once, so that the first request does not wait for cold memory."""
        table = self._take(1)
        self._model.prefill([0], table, cached_tokens=0)
        self.allocator.release(table)

    def generate(
        self,
        request: Request,
        *,
        on_prefill: Callable[[int], None] | None = None,
        on_token: Callable[[int], None] | None = None,
    ) -> Answer:
        """Answer one request.

        Args:
            request: What to generate.
            on_prefill: Told how many prompt tokens are done, while they are computed.
            on_token: Told each token of the answer as it comes.

        Raises:
            TooLong: Prompt and answer are longer than the model's context.
            OutOfBlocks: Prompt and answer need more blocks than there are, or than copies gave
                back within the budget.
        """
        begun = time.perf_counter()
        sequence, local_count = self._open(request)

        def keep(token_count: int) -> None:
            self._keep(sequence, token_count)
            if on_prefill is not None:
                on_prefill(token_count)

        try:
            external_count = self._load(sequence) if request.reads_cache else 0
            logits = self._model.prefill(
                sequence.tokens,
                sequence.table,
                cached_tokens=sequence.complete_count * BLOCK_TOKENS,
                progress=keep,
            )
            first_token_s = time.perf_counter() - begun
            self._decode(sequence, request, logits, on_token)
            self._offer_all(sequence)
        finally:
            self.allocator.release(sequence.table)
        return Answer(
            tokens=tuple(sequence.tokens[len(request.prompt) :]),
            local_tokens=local_count * BLOCK_TOKENS,
            external_tokens=external_count * BLOCK_TOKENS,
            first_token_s=first_token_s,
            total_s=time.perf_counter() - begun,
        )

    def count(self, prompt: Sequence[int], salt: bytes = b"") -> tuple[int, int]:
        """Count a prompt's blocks that are found here, and behind them in the external cache.

        Nothing is kept, so they may be gone when the prompt is asked.
        """
        self._adopt_generation(None if self._external is None else self._external.begin())
        hashes = chain_hashes(prompt[:-1], salt)
        shared = self.allocator.share(hashes)
        self.allocator.release(shared)
        missing = hashes[len(shared) :]
        if self._external is None or not missing:
            return len(shared), 0
        return len(shared), self._external.count(missing)

    def drain(self, timeout_s: float) -> bool:
        """Wait until the copies in flight have ended; say whether all have."""
        wait(self._copies, timeout=timeout_s)
        self._settle_copies()
        return not self._copies

    def reset(self) -> None:
        """Make everything cached so far unfindable, here and in the external cache."""
        self.allocator.forget_names()
        if self._external is not None:
            self._external.reset()

    def _open(self, request: Request) -> tuple[_Sequence, int]:
        """Give a request its blocks; also say how many of them are complete already."""
        token_count = len(request.prompt) + request.max_new_tokens
        if token_count > self._context_tokens:
            raise TooLong(token_count, self._context_tokens)
        external = None if self._external is None else self._external.begin()
        self._adopt_generation(external)
        sequence = _Sequence(list(request.prompt), [], 0, request.salt, external)
        if request.reads_cache:
            sequence.table = self.allocator.share(_readable_hashes(sequence))
            sequence.complete_count = len(sequence.table)
        try:
            sequence.table += self._take(blocks_for(token_count) - len(sequence.table))
        except OutOfBlocks:
            self.allocator.release(sequence.table)
            raise
        return sequence, sequence.complete_count

    def _adopt_generation(self, external: ExternalRequest | None) -> None:
        """Forget what was computed before the external cache was reset."""
        if external is not None and external.generation != self._generation:
            self.allocator.forget_names()
            self._generation = external.generation

    def _take(self, count: int) -> list[int]:
        """Take free blocks; while there are too few, wait for a copy that holds some."""
        while True:
            self._settle_copies()
            try:
                return self.allocator.take(count)
            except OutOfBlocks:
                ended = wait(self._copies, self._copy_budget_s, FIRST_COMPLETED).done
                if not ended:
                    raise

    def _load(self, sequence: _Sequence) -> int:
        """Load what the external cache has behind the blocks found here; count its blocks."""
        first = sequence.complete_count
        missing = _readable_hashes(sequence)[first:]
        if sequence.external is None or not missing:
            return 0
        count = sequence.external.lookup(missing)
        if count == 0:
            return 0
        blocks = sequence.table[first : first + count]
        copy = sequence.external.load(missing[:count], blocks)
        self._hold_for(copy, blocks)
        if not wait([copy], self._copy_budget_s).done:
            # Bytes may still arrive in these blocks: go on in others.
            sequence.table[first : first + count] = self._take(count)
            self.allocator.release(blocks)
            return 0
        if not copy.result():
            return 0
        self._name(sequence, missing[:count])
        return count

    def _decode(
        self,
        sequence: _Sequence,
        request: Request,
        logits: Tensor,
        on_token: Callable[[int], None] | None,
    ) -> None:
        """Append the likeliest token until the answer ends."""
        limit = len(request.prompt) + request.max_new_tokens
        token = int(logits.argmax())
        while token != request.end_token:
            sequence.tokens.append(token)
            if on_token is not None:
                on_token(token)
            if len(sequence.tokens) == limit:
                break
            logits = self._model.decode(token, len(sequence.tokens) - 1, sequence.table)
            self._keep(sequence, len(sequence.tokens))
            token = int(logits.argmax())

    def _keep(self, sequence: _Sequence, computed_count: int) -> None:
        """Name the blocks completed since the last time, and offer them to the external cache.

        The first offer includes what was found here: the cache may have lost it.
        """
        first = sequence.offered_count
        if computed_count // BLOCK_TOKENS <= first:
            return
        hashes = sequence.hashes(computed_count)
        self._name(sequence, hashes[sequence.complete_count :])
        sequence.offered_count = len(hashes)
        if sequence.external is not None:
            blocks = sequence.table[first : len(hashes)]
            self._hold_for(sequence.external.store(hashes[first:], blocks), blocks)

    def _offer_all(self, sequence: _Sequence) -> None:
        """Offer all its blocks once more: of what one offer names, the end of a prefix is evicted first."""
        if sequence.external is not None and sequence.offered_count:
            hashes = sequence.hashes(sequence.offered_count * BLOCK_TOKENS)
            blocks = sequence.table[: sequence.offered_count]
            self._hold_for(sequence.external.store(hashes, blocks), blocks)

    def _name(self, sequence: _Sequence, hashes: Sequence[bytes]) -> None:
        """Name the next blocks of a sequence, which are now complete."""
        for block_hash in hashes:
            self.allocator.name(sequence.table[sequence.complete_count], block_hash)
            sequence.complete_count += 1

    def _hold_for(self, copy: Future[bool], blocks: list[int]) -> None:
        self.allocator.hold(blocks)
        self._copies[copy] = blocks

    def _settle_copies(self) -> None:
        """Give back the blocks of the copies that have ended."""
        for copy in [copy for copy in self._copies if copy.done()]:
            self.allocator.release(self._copies.pop(copy))


def _readable_hashes(sequence: _Sequence) -> list[bytes]:
    """Name the blocks a request may reuse: never its last token, whose logits it needs."""
    return sequence.hashes(len(sequence.tokens) - 1)
