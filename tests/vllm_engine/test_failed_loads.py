"""A load that fails is computed instead, and no more than without a cache: the same tokens, and as many."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.faults import failed_loads
from vllm_engine.tiny import tiny_llama, tiny_windowed

PROMPTS = [prompt(seed, 150 + 100 * seed) for seed in range(4)]
ROUNDS = 6


@pytest.fixture(
    scope="module", params=[tiny_llama, tiny_windowed], ids=["one group", "two groups"]
)
def engine(daemon: Kvstowd, request: pytest.FixtureRequest) -> Iterator[OpenEngine]:
    """An engine with the connector; with several groups vLLM is told of requests, not of blocks."""
    with running_engine(request.param(), connector(daemon.target, **PATIENT)) as running:
        yield running


@dataclass(frozen=True)
class Cold:
    """What an engine does without a cache.

    Attributes:
        answers: to the prompts.
        token_count: computed for all of them.
        step_count: taken for one after the other: more than for all at once, whenever their loads end.
    """

    answers: list[tuple[int, ...]]
    token_count: int
    step_count: int


@pytest.fixture(scope="module")
def cold(engine: OpenEngine, books: Books) -> Cold:
    """What an engine does without a cache; afterwards everything is stored."""
    done = len(engine.scheduled)
    answers = engine.run(*PROMPTS)
    token_count = sum(engine.scheduled[done:])
    done = len(engine.scheduled)
    for tokens in PROMPTS:
        engine.run(tokens, skip_reading_prefix_cache=True)
    step_count = len(engine.scheduled) - done
    engine.forget()
    books.wait_quiet()
    return Cold([answer.tokens for answer in answers], token_count, step_count)


FAILURES: dict[str, dict[str, Any]] = {
    "every third load": {"every": 3},
    "the first block of every load": {"blocks": [0]},
    "a block in the middle of every load": {"blocks": [2]},
    "every load": {},
}


@pytest.mark.parametrize("failure", FAILURES)
def test_answers_stay_the_same(
    engine: OpenEngine,
    daemon: Kvstowd,
    books: Books,
    cold: Cold,
    failure: str,
) -> None:
    with failed_loads(daemon, **FAILURES[failure]) as failed_count:
        for _ in range(ROUNDS):
            done = len(engine.scheduled)
            assert [answer.tokens for answer in engine.run(*PROMPTS)] == cold.answers
            assert len(engine.scheduled) - done <= cold.step_count
            assert sum(engine.scheduled[done:]) <= cold.token_count
            engine.forget()
        assert failed_count()
    books.wait_quiet()
    assert engine.run(*PROMPTS)[-1].cached_count, "loads are tried again"
    engine.forget()
    books.wait_quiet()
