"""A load that fails is computed instead: the same tokens, after not many more steps."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, Answer, OpenEngine, connector, prompt, running_engine
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


@pytest.fixture(scope="module")
def cold(engine: OpenEngine, books: Books) -> tuple[list[Answer], int]:
    """What is answered without a cache, and in how many steps; afterwards everything is stored."""
    answers = engine.run(*PROMPTS)
    steps = len(engine.scheduled)
    engine.forget()
    books.wait_quiet()
    return answers, steps


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
    cold: tuple[list[Answer], int],
    failure: str,
) -> None:
    answers, steps = cold
    tokens = [answer.tokens for answer in answers]
    with failed_loads(daemon, **FAILURES[failure]) as failed_count:
        for _ in range(ROUNDS):
            done = len(engine.scheduled)
            assert [answer.tokens for answer in engine.run(*PROMPTS)] == tokens
            assert len(engine.scheduled) - done <= 2 * steps
            engine.forget()
        assert failed_count()
    books.wait_quiet()
    assert engine.run(*PROMPTS)[-1].cached_count, "loads are tried again"
    engine.forget()
    books.wait_quiet()
