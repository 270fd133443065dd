"""Steps that are planned while the one before is under way: vLLM's asynchronous scheduling.

vLLM turns it off on the CPU, because nothing is gained there, not because it cannot; here it is left on. The scheduler and the
engine's loop are those that GPUs have: steps are planned, and blocks given away, before the output of the last one is known.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from vllm.config import VllmConfig
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from client.faults import STORE, held
from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.faults import slow_copies
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPTS = [prompt(seed, 200) for seed in range(3)]
CACHED = 200 // BLOCK_TOKENS * BLOCK_TOKENS
LONG = 70
BLOCK_COUNT = 25
FEW = {"num_gpu_blocks_override": BLOCK_COUNT, "max_model_len": 512}


@contextmanager
def planned_ahead() -> Iterator[None]:
    """Engines that start here keep asynchronous scheduling, if they are told to have it."""
    update = CpuPlatform.check_and_update_config

    def keep(config: VllmConfig) -> None:
        wanted = config.scheduler_config.async_scheduling
        update(config)
        config.scheduler_config.async_scheduling = wanted

    with patch.object(CpuPlatform, "check_and_update_config", staticmethod(keep)):
        yield


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    """What an engine without a connector answers."""
    with running_engine(tiny_llama(), enable_prefix_caching=False) as engine:
        return [answer.tokens for answer in engine.run(*PROMPTS, generate=LONG)]


@pytest.fixture(scope="module")
def running(expected: object, daemon: Kvstowd) -> Iterator[OpenEngine]:
    """An engine with too few blocks for all."""
    options = connector(daemon.target, **PATIENT)
    with (
        planned_ahead(),
        running_engine(tiny_llama(), options, async_scheduling=True, **FEW) as engine,
    ):
        assert isinstance(engine.scheduler, AsyncScheduler)
        assert engine.scheduler.vllm_config.kv_transfer_config.kv_role == "kv_both"
        yield engine


@pytest.fixture
def engine(running: OpenEngine, books: Books) -> Iterator[OpenEngine]:
    """The engine, with nothing cached anywhere; afterwards every block and every hold was given back."""
    running.settle()
    assert running.reset()
    yield running
    running.forget()
    books.wait_quiet()
    assert running.free_count == BLOCK_COUNT - 1


def is_ahead(engine: OpenEngine, name: str) -> bool:
    """Whether a step that computes the request is under way."""
    request = engine.scheduler.requests.get(name)
    return bool(request and request.num_in_flight_tokens)


def test_preemption_loads_and_reused_blocks(
    engine: OpenEngine, daemon: Kvstowd, books: Books, expected: list[tuple[int, ...]]
) -> None:
    for _ in ("cold", "warm"):
        preempted = engine.preempted_count
        with slow_copies(daemon, 0.03):
            answers = engine.run(*PROMPTS, generate=LONG)
        assert [answer.tokens for answer in answers] == expected
        assert engine.preempted_count > preempted
        engine.forget()
        books.wait_quiet()
    (answer,) = engine.run(PROMPTS[0], generate=LONG)
    assert answer.cached_count == CACHED
    assert answer.tokens == expected[0]


@pytest.mark.parametrize("abort", [False, True], ids=["goes on", "aborted"])
def test_a_reset_of_running_requests_with_a_step_under_way(
    engine: OpenEngine,
    daemon: Kvstowd,
    books: Books,
    expected: list[tuple[int, ...]],
    abort: bool,
) -> None:
    with held(daemon, STORE):
        name = engine.add(PROMPTS[0], LONG)
        engine.step_until(
            lambda: (
                books.transfer_count
                and engine.generated_count(name) > BLOCK_TOKENS
                and is_ahead(engine, name)
            ),
            "a step under way, and a store",
        )
        assert engine.reset(running=True)
        assert not books.ready_count
        if abort:
            engine.abort(name)
    if not abort:
        assert engine.finish(name)[0].tokens == expected[0]
    engine.forget()
    books.wait_quiet()
    (again,) = engine.run(PROMPTS[0], generate=LONG)
    assert again.cached_count == (0 if abort else CACHED)
    assert again.tokens == expected[0]
