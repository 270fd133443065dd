"""Two ranks with half of the heads each: a block is there on both or on none."""

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, connector, prompt, running_engine
from vllm_engine.serve import engine_process
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPTS = [prompt(seed, 100 + 150 * seed) for seed in range(4)]
CACHED = [(len(tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS for tokens in PROMPTS]


@pytest.fixture(scope="module")
def expected(daemon: Kvstowd) -> list[tuple[int, ...]]:
    """What an engine of one rank answers, which leaves its blocks at the daemon."""
    with running_engine(tiny_llama(), connector(daemon.target, **PATIENT)) as engine:
        answers = engine.run(*PROMPTS)
        engine.settle()
    return [answer.tokens for answer in answers]


def test_two_ranks_share_with_their_like_alone(
    daemon: Kvstowd, books: Books, expected: list[tuple[int, ...]]
) -> None:
    with engine_process(tiny_llama(), daemon.target, tensor_parallel_size=2) as engine:
        cold = engine.run(*PROMPTS)
        assert [answer.cached_count for answer in cold] == [0] * len(PROMPTS)
        assert [answer.tokens for answer in cold] == expected
        books.wait_quiet()
        engine.forget()
        warm = engine.run(*PROMPTS)
        assert [answer.cached_count for answer in warm] == CACHED
        assert [answer.tokens for answer in warm] == expected
        books.wait_quiet()
