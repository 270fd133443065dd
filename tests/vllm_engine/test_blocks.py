"""The engine's blocks: never given to two, never leaked, never overwritten under a copy, whatever ends a request."""

from collections.abc import Iterator
from contextlib import ExitStack
from unittest.mock import patch

import pytest
import torch

from client.faults import LOAD, STORE, held
from kvstow.client.engines.offload.board import BoardView
from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.faults import slow_copies
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

BLOCK_COUNT = 25
PROMPTS = [prompt(seed, 200) for seed in range(3)]
LONG = 100
MANY = {"num_gpu_blocks_override": 128}
FEW = {"num_gpu_blocks_override": BLOCK_COUNT, "max_model_len": 512}


def contents(engine: OpenEngine, names: list[str], generate: int) -> list[torch.Tensor]:
    """KV of requests shortly before they end; they may end at different times."""
    found: dict[str, torch.Tensor] = {}

    def look() -> bool:
        for name in set(names) - set(found):
            ready = engine.generated_count(name) == generate - 1
            if ready:
                found[name] = engine.content(name).clone()
        return len(found) == len(names)

    engine.step_until(look, "the last token of all")
    return [found[name] for name in names]


@pytest.fixture(scope="module")
def expected() -> tuple[list[tuple[int, ...]], list[torch.Tensor]]:
    """Tokens and KV of an engine without a connector and with blocks enough."""
    with running_engine(tiny_llama(), enable_prefix_caching=False, **MANY) as engine:
        names = [engine.add(tokens, LONG) for tokens in PROMPTS]
        kv = contents(engine, names, LONG)
        return [answer.tokens for answer in engine.finish(*names)], kv


@pytest.fixture(scope="module")
def running(expected: object, daemon: Kvstowd) -> Iterator[OpenEngine]:
    """An engine with the connector and with too few blocks for the requests together."""
    with running_engine(tiny_llama(), connector(daemon.target, **PATIENT), **FEW) as engine:
        yield engine


@pytest.fixture
def engine(running: OpenEngine, books: Books) -> Iterator[OpenEngine]:
    """The engine, with nothing cached anywhere; afterwards every block and every hold was given back."""
    assert running.reset()
    free_count = running.free_count
    yield running
    running.forget()
    books.wait_quiet()
    assert running.free_count == free_count == BLOCK_COUNT - 1


def test_abort_before_the_first_step(engine: OpenEngine) -> None:
    engine.abort(engine.add(PROMPTS[0]))


def test_abort_of_a_request_that_never_fitted(engine: OpenEngine, books: Books) -> None:
    """It is looked up and found, but there are no blocks for it: what it holds is given back."""
    engine.run(PROMPTS[2])
    engine.forget()
    books.wait_quiet()
    names = [engine.add(tokens, LONG) for tokens in PROMPTS]
    engine.step()
    for name in reversed(names):
        engine.abort(name)


def test_abort_during_a_load(engine: OpenEngine, daemon: Kvstowd, books: Books) -> None:
    engine.run(PROMPTS[0])
    engine.forget()
    books.wait_quiet()
    with held(daemon, LOAD) as wait_held:
        name = engine.add(PROMPTS[0])
        engine.step_until(lambda: books.transfer_count, "a load")
        wait_held()
        engine.abort(name)
        engine.step()
        assert engine.free_count < BLOCK_COUNT - 1, "blocks were given back under a load"


def test_abort_during_a_store(
    engine: OpenEngine,
    daemon: Kvstowd,
    books: Books,
    expected: tuple[list[tuple[int, ...]], list[torch.Tensor]],
) -> None:
    with held(daemon, STORE) as wait_held:
        name = engine.add(PROMPTS[0], LONG)
        engine.step_until(lambda: books.transfer_count, "a store")
        wait_held()
        engine.abort(name)
        engine.step()
    engine.forget()
    books.wait_quiet()
    (answer,) = engine.run(PROMPTS[0], generate=LONG)
    assert answer.tokens == expected[0][0]


def test_blocks_are_not_overwritten_under_a_store(
    engine: OpenEngine, daemon: Kvstowd, books: Books
) -> None:
    """The engine gives a finished request's blocks to the next ones, which wait until they were copied."""
    first, *others = [prompt(10 + seed, 400) for seed in range(3)]
    with ExitStack() as copies:
        copies.enter_context(held(daemon, STORE))
        (cold,) = engine.run(first)
        assert books.transfer_count
        waited: list[int] = []
        wait = BoardView.wait

        def let_go(view: BoardView, number: int, timeout_s: float) -> bool:
            """As soon as the engine waits for a copy, and no sooner."""
            if not wait(view, number, 0):
                waited.append(number)
                copies.close()
            return wait(view, number, timeout_s)

        with patch.object(BoardView, "wait", let_go):
            engine.run(*others)
        assert waited
    engine.forget()
    books.wait_quiet()
    (warm,) = engine.run(first)
    assert warm.cached_count == len(first) // BLOCK_TOKENS * BLOCK_TOKENS
    assert warm.tokens == cold.tokens


@pytest.mark.parametrize("round_", ["cold", "warm"])
def test_preemption_while_stores_are_in_flight(
    engine: OpenEngine,
    daemon: Kvstowd,
    books: Books,
    expected: tuple[list[tuple[int, ...]], list[torch.Tensor]],
    round_: str,
) -> None:
    """Blocks are reused all the time; neither the engine's KV nor what was stored of it is ever another's."""
    tokens, kv = expected
    if round_ == "warm":
        engine.run(*PROMPTS, generate=LONG)
        engine.forget()
        books.wait_quiet()
    preempted = engine.preempted_count
    with slow_copies(daemon, 0.03):
        names = [engine.add(each, LONG) for each in PROMPTS]
        found = contents(engine, names, LONG)
        assert [answer.tokens for answer in engine.finish(*names)] == tokens
    assert engine.preempted_count > preempted
    for mine, theirs in zip(found, kv, strict=True):
        torch.testing.assert_close(mine, theirs)
    engine.forget()
    books.wait_quiet()
    for each, answer in zip(PROMPTS, tokens, strict=True):
        name = engine.add(each, LONG)
        (mine,) = contents(engine, [name], LONG)
        torch.testing.assert_close(mine, kv[PROMPTS.index(each)])
        (loaded,) = engine.finish(name)
        assert loaded.cached_count
        assert loaded.tokens == answer
