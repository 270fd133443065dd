"""A prefix that an engine computed once comes back from kvstow: to itself, to others, and after its death."""

from collections.abc import Iterator

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.serve import engine_process
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

Expected = dict[str, list[tuple[int, ...]]]
# Less than a block, a block, a block and a token, several and a part, several steps long.
LENGTHS = (BLOCK_TOKENS - 1, BLOCK_TOKENS, BLOCK_TOKENS + 1, 300, 640)
PROMPTS = [prompt(seed, length) for seed, length in enumerate(LENGTHS)]
CACHED = [(length - 1) // BLOCK_TOKENS * BLOCK_TOKENS for length in LENGTHS]
OTHERS = [prompt(100 + seed, length) for seed, length in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def expected() -> Expected:
    """What an engine without a connector and without a cache answers."""
    with running_engine(tiny_llama(), enable_prefix_caching=False) as engine:
        return {
            "prompts": [answer.tokens for answer in engine.run(*PROMPTS)],
            "others": [answer.tokens for answer in engine.run(*OTHERS)],
        }


@pytest.fixture(scope="module")
def engine(expected: object, daemon: Kvstowd) -> Iterator[OpenEngine]:
    """An engine with the connector, after that without has gone."""
    with running_engine(tiny_llama(), connector(daemon.target, **PATIENT)) as running:
        yield running


def test_a_prefix_comes_back_after_the_engine_has_forgotten_it(
    engine: OpenEngine, books: Books, expected: Expected
) -> None:
    cold = engine.run(*PROMPTS)
    assert [answer.cached_count for answer in cold] == [0] * len(PROMPTS)
    assert [answer.tokens for answer in cold] == expected["prompts"]
    engine.forget()
    books.wait_quiet()

    warm = engine.run(*PROMPTS)
    assert [answer.cached_count for answer in warm] == CACHED
    assert [answer.tokens for answer in warm] == expected["prompts"]
    assert books.counters().loaded_count == sum(CACHED) // BLOCK_TOKENS
    engine.settle()
    books.wait_quiet()


def test_engines_share_and_outlive_each_other(
    engine: OpenEngine,
    daemon: Kvstowd,
    books: Books,
    expected: Expected,
) -> None:
    engine.run(*PROMPTS)
    engine.forget()
    books.wait_quiet()
    with engine_process(tiny_llama(), daemon.target) as other:
        taken = other.run(*PROMPTS)
        assert [answer.cached_count for answer in taken] == CACHED
        assert [answer.tokens for answer in taken] == expected["prompts"]

        given = other.run(*OTHERS)
        assert [answer.cached_count for answer in given] == [0] * len(OTHERS)
        assert [answer.tokens for answer in given] == expected["others"]
        books.wait_quiet()
    inherited = engine.run(*OTHERS)
    assert [answer.cached_count for answer in inherited] == CACHED
    assert [answer.tokens for answer in inherited] == expected["others"]
    engine.settle()
    books.wait_quiet()
