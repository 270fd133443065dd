"""Two ranks with half of the heads each: a block is there on both or on none, whatever fails.

The engine runs in a process of its own, with one for each rank beneath it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kvstowd import Kvstowd, running_kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, connector, prompt, repeat_until, running_engine
from vllm_engine.faults import failed_loads
from vllm_engine.serve import EngineProcess, engine_process
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPTS = [prompt(seed, 100 + 150 * seed) for seed in range(4)]
NOTHING = [0] * len(PROMPTS)
CACHED = [(len(tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS for tokens in PROMPTS]


@pytest.fixture(scope="module")
def expected(daemon: Kvstowd) -> list[tuple[int, ...]]:
    """What an engine of one rank answers, which leaves its blocks at the daemon."""
    with running_engine(tiny_llama(), connector(daemon.target, **PATIENT)) as engine:
        answers = engine.run(*PROMPTS)
        engine.settle()
    return [answer.tokens for answer in answers]


@pytest.fixture(scope="module")
def engine(daemon: Kvstowd, expected: object) -> Iterator[EngineProcess]:
    """An engine of two ranks."""
    with engine_process(tiny_llama(), daemon.target, tensor_parallel_size=2) as running:
        yield running


def ask(engine: EngineProcess, expected: list[tuple[int, ...]]) -> list[int]:
    """Have the engine answer, and right; returns how many tokens it did not compute."""
    answers = engine.run(*PROMPTS)
    assert [answer.tokens for answer in answers] == expected
    return [answer.cached_count for answer in answers]


def test_two_ranks_share_with_their_like_alone(
    engine: EngineProcess, books: Books, expected: list[tuple[int, ...]]
) -> None:
    assert ask(engine, expected) == NOTHING
    books.wait_quiet()
    engine.forget()
    assert ask(engine, expected) == CACHED
    books.wait_quiet()


def test_a_load_that_fails_on_one_rank_is_computed_on_both(
    engine: EngineProcess, daemon: Kvstowd, books: Books, expected: list[tuple[int, ...]]
) -> None:
    engine.forget()
    with failed_loads(daemon, blocks=[1], every=2) as failed_count:
        ask(engine, expected)
        assert failed_count()
    books.wait_quiet()


def test_a_reset_reaches_both(
    engine: EngineProcess, books: Books, expected: list[tuple[int, ...]]
) -> None:
    assert engine.reset()
    assert ask(engine, expected) == NOTHING
    engine.forget()
    books.wait_quiet()
    assert ask(engine, expected) == CACHED


def test_both_attach_to_the_next_daemon(
    engine: EngineProcess, daemon: Kvstowd, directory: Path, expected: list[tuple[int, ...]]
) -> None:
    """It stores again, and finds it."""
    daemon.kill()
    engine.forget()
    assert ask(engine, expected) == NOTHING
    with running_kvstowd(directory, pool_size="64MiB"):
        repeat_until(
            engine.forget,
            lambda: ask(engine, expected) == CACHED,
            "everything is found at the next daemon",
        )
