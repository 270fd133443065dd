"""What is stored, and when: all that was computed in eager mode, all that is evicted in lazy mode, no more and no less."""

from collections.abc import Iterator, Sequence

import pytest

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, Answer, OpenEngine, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

ODD_STEP = 97
GENERATE = 70
PROMPTS = [prompt(seed, 31 + 67 * seed) for seed in range(5)]


@pytest.fixture(params=[False, True], ids=["all", "prompt only"])
def prompt_only(request: pytest.FixtureRequest) -> bool:
    """Whether blocks with generated tokens are kept back."""
    return bool(request.param)


def full_tokens(count: int) -> int:
    """Tokens in full blocks."""
    return count // BLOCK_TOKENS * BLOCK_TOKENS


def continued(tokens: Sequence[int], answer: Answer) -> list[int]:
    """A prompt that begins with a request's prompt and its answer."""
    return [*tokens, *answer.tokens, 1, 2, 3]


def test_eager_mode_stores_every_full_block(
    daemon: Kvstowd, books: Books, prompt_only: bool
) -> None:
    """Of a request, all tokens were computed but the last one that it generated. With vLLM's own prefix cache and without."""
    tenant = f"prompt only: {prompt_only}"
    options = {"offload_prompt_only": prompt_only, "tenant": tenant, **PATIENT}
    with running_engine(
        tiny_llama(),
        connector(daemon.target, **options),
        max_num_batched_tokens=ODD_STEP,
        enable_prefix_caching=not prompt_only,
    ) as engine:
        answers = engine.run(*PROMPTS, generate=GENERATE)
        engine.forget()
        books.wait_quiet()
        computed = [
            full_tokens(len(tokens) if prompt_only else len(tokens) + GENERATE - 1)
            for tokens in PROMPTS
        ]
        assert books.ready_count_of(tenant) == sum(computed) // BLOCK_TOKENS
        longer = [continued(*each) for each in zip(PROMPTS, answers, strict=True)]
        warm = engine.run(*longer)
        assert [answer.cached_count for answer in warm] == computed


@pytest.fixture(scope="module")
def lazy(daemon: Kvstowd) -> Iterator[OpenEngine]:
    """A lazy engine with few blocks."""
    options = connector(daemon.target, mode="lazy", tenant="lazy", **PATIENT)
    with running_engine(tiny_llama(), options, num_gpu_blocks_override=40) as engine:
        yield engine


def test_lazy_mode_stores_what_is_evicted(lazy: OpenEngine, books: Books) -> None:
    prompts = [prompt(seed, 400) for seed in range(6)]
    cold = [lazy.run(tokens)[0] for tokens in prompts]
    lazy.settle()
    books.wait_quiet()
    # Together they are larger than the engine's cache: most of the first ones is gone from it.
    warm = [lazy.run(tokens)[0] for tokens in prompts]
    assert [answer.tokens for answer in warm] == [answer.tokens for answer in cold]
    assert [answer.cached_count for answer in warm] == [full_tokens(399)] * len(prompts)
    assert books.counters().loaded_count
    lazy.settle()
    books.wait_quiet()
