"""Everything at once, at random: few blocks, slow copies, failing loads, aborts and resets; the answers are always right."""

import random
from collections.abc import Callable

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, OpenEngine, connector, prompt, running_engine
from vllm_engine.faults import failed_loads, slow_copies
from vllm_engine.tiny import tiny_llama, tiny_windowed

GENERATE = 40
ACTIONS = 150
ROUNDS = 2
BLOCK_COUNT = 40
COMMON = prompt(1, 130)
PROMPTS = [
    *(prompt(seed, 60 + 45 * seed) for seed in range(2, 6)),
    *(COMMON + prompt(seed, 20 + 40 * seed) for seed in range(4)),
]
MODELS = {"one group": tiny_llama, "two groups": tiny_windowed}
Answers = dict[str, list[tuple[int, ...]]]


@pytest.fixture(scope="module")
def expected() -> Answers:
    """What engines without a connector answer."""
    answers = {}
    for name, model in MODELS.items():
        with running_engine(model(), enable_prefix_caching=False) as engine:
            answers[name] = [each.tokens for each in engine.run(*PROMPTS, generate=GENERATE)]
    return answers


class Mixture:
    """One engine under random actions.

    Args:
        draw: where the randomness comes from.
    """

    def __init__(self, engine: OpenEngine, draw: random.Random) -> None:
        self._engine = engine
        self._draw = draw
        self._asked: dict[str, int] = {}
        self._actions: list[Callable[[], None]] = [
            *[self._ask] * 10,
            *[self._step] * 20,
            *[self._abort] * 2,
            *[self._forget] * 3,
            self._reset,
        ]

    def act(self) -> None:
        """Do one thing."""
        self._draw.choice(self._actions)()

    def check(self, expected: list[tuple[int, ...]]) -> int:
        """Let all end; those that were not aborted have answered well. Returns how many."""
        self._engine.finish(*self._asked)
        for name, number in self._asked.items():
            assert self._engine.answers[name].tokens == expected[number], name
        return len(self._asked)

    def _ask(self) -> None:
        number = self._draw.randrange(len(PROMPTS))
        skips = self._draw.random() < 0.1
        name = self._engine.add(PROMPTS[number], GENERATE, skip_reading_prefix_cache=skips)
        self._asked[name] = number

    def _step(self) -> None:
        for _ in range(self._draw.randrange(1, 12)):
            self._engine.step()

    def _abort(self) -> None:
        running = [name for name in self._asked if name not in self._engine.answers]
        if running:
            name = self._draw.choice(running)
            self._engine.abort(name)
            del self._asked[name]

    def _forget(self) -> None:
        """What is asked next is loaded; otherwise the engine's own cache has most of it."""
        self._engine.forget()

    def _reset(self) -> None:
        running = self._draw.random() < 0.5 and not self._engine.is_loading
        self._engine.reset(running=running)


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("model", MODELS)
def test_answers_are_right(
    daemon: Kvstowd, books: Books, expected: Answers, model: str, mode: str
) -> None:
    options = connector(daemon.target, mode=mode, lazy_blocks=BLOCK_COUNT, tenant=mode, **PATIENT)
    with running_engine(
        MODELS[model](), options, num_gpu_blocks_override=BLOCK_COUNT, max_num_batched_tokens=100
    ) as engine:
        free_count, failed_count = engine.free_count, 0.0
        loaded = books.counters().loaded_count
        for seed in range(ROUNDS):
            mixture = Mixture(engine, random.Random(seed))
            with failed_loads(daemon, every=2) as failed, slow_copies(daemon, 0.01):
                for _ in range(ACTIONS):
                    mixture.act()
                assert mixture.check(expected[model]), "nothing was answered"
                failed_count += failed()
            engine.forget()
            books.wait_quiet()
            assert engine.free_count == free_count
        assert engine.preempted_count
        assert failed_count
        assert books.counters().loaded_count > loaded
