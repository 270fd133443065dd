"""Requests that must not read the cache do not, and store all the same."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPT = prompt(1, 300)
WAYS: dict[str, dict[str, Any]] = {
    "asked for": {"skip_reading_prefix_cache": True},
    "implied by prompt_logprobs": {"prompt_logprobs": 1},
}


@pytest.fixture(scope="module")
def engine(daemon: Kvstowd) -> Iterator[OpenEngine]:
    """An engine with the connector."""
    with running_engine(tiny_llama(), connector(daemon.target, **PATIENT)) as running:
        yield running


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_looked_up_and_everything_is_stored(
    engine: OpenEngine, books: Books, way: str
) -> None:
    assert engine.reset()
    before = books.counters()
    (first,) = engine.run(PROMPT, **WAYS[way])
    engine.forget()
    books.wait_quiet()
    stored = books.counters()
    assert stored.lookups == before.lookups
    assert stored.stored_count - before.stored_count == len(PROMPT) // BLOCK_TOKENS

    (again,) = engine.run(PROMPT, **WAYS[way])
    assert again.cached_count == 0
    assert again.tokens == first.tokens
    engine.forget()
    books.wait_quiet()
    assert books.counters().lookups == before.lookups
    assert books.counters().loaded_count == before.loaded_count

    (reading,) = engine.run(PROMPT)
    assert reading.cached_count == len(PROMPT) // BLOCK_TOKENS * BLOCK_TOKENS
    assert reading.tokens == first.tokens
    assert books.counters().lookups > before.lookups
    engine.settle()
    books.wait_quiet()
