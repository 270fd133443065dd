"""Who shares: engines that would compute the same bytes for the same tokens, and no others."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.core.kv_cache_utils import BlockHash
from vllm.v1.request import Request

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, Answer, OpenEngine, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_adapter, tiny_llama, tiny_windowed

PROMPT = prompt(1, 300)
CACHED = 300 // BLOCK_TOKENS * BLOCK_TOKENS


def test_salts_and_prompts_that_differ_early_do_not_share(daemon: Kvstowd, books: Books) -> None:
    changed = [(PROMPT[0] + 1) % 1000, *PROMPT[1:]]
    with running_engine(
        tiny_llama(), connector(daemon.target, tenant="salts", **PATIENT)
    ) as engine:

        def ask(tokens: list[int], salt: str) -> Answer:
            engine.forget()
            books.wait_quiet()
            return engine.run(tokens, salt=salt)[0]

        plain = ask(PROMPT, "")
        for tokens, salt in ((PROMPT, "one"), (PROMPT, "two"), (changed, ""), (changed, "one")):
            cold = ask(tokens, salt)
            assert cold.cached_count == 0
            assert (cold.tokens == plain.tokens) == (tokens == PROMPT)
            warm = ask(tokens, salt)
            assert warm.cached_count == CACHED
            assert warm.tokens == cold.tokens
        engine.settle()
    books.wait_quiet()


def test_adapters_do_not_share(daemon: Kvstowd, books: Books) -> None:
    adapters = [
        None,
        *(LoRARequest(f"adapter-{seed}", seed, str(tiny_adapter(seed))) for seed in (1, 2)),
    ]
    options = connector(daemon.target, tenant="adapters", **PATIENT)
    with running_engine(tiny_llama(), options, enable_lora=True) as engine:

        def ask(adapter: LoRARequest | None) -> Answer:
            engine.forget()
            books.wait_quiet()
            return engine.run(PROMPT, adapter=adapter)[0]

        cold = [ask(adapter) for adapter in adapters]
        warm = [ask(adapter) for adapter in adapters]
        engine.settle()
    books.wait_quiet()
    assert [answer.cached_count for answer in cold] == [0] * len(adapters)
    assert [answer.cached_count for answer in warm] == [CACHED] * len(adapters)
    assert [answer.tokens for answer in warm] == [answer.tokens for answer in cold]
    assert len({answer.tokens for answer in cold}) == len(adapters)


@contextmanager
def hashed_with(engine: OpenEngine, images: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Let vLLM hash blocks as those of requests with images, by name and first token of each.

    The model computes the tokens alone: it has no eyes, and what it would see makes no other difference here.
    """
    features = [
        MultiModalFeatureSpec(None, "image", name, PlaceholderRange(offset, length=40))
        for name, offset in images
    ]
    hasher = engine.core.request_block_hasher

    def hashed(request: Request) -> list[BlockHash]:
        with patch.object(request, "mm_features", features):
            found: list[BlockHash] = hasher(request)
        return found

    with patch.object(engine.core, "request_block_hasher", hashed):
        yield


def test_images_do_not_share(daemon: Kvstowd, books: Books) -> None:
    """Up to where they begin, prompts do."""
    begin = 3 * BLOCK_TOKENS + 4
    options = connector(daemon.target, tenant="images", **PATIENT)
    with running_engine(tiny_llama(), options) as engine:

        def ask(*images: tuple[str, int]) -> int:
            engine.forget()
            books.wait_quiet()
            with hashed_with(engine, images):
                return engine.run(PROMPT)[0].cached_count

        seen = [(), (("cat", begin),), (("dog", begin),), (("cat", begin + 1),)]
        assert [ask(*images) for images in seen] == [0, *[3 * BLOCK_TOKENS] * 3]
        assert [ask(*images) for images in seen] == [CACHED] * len(seen)
        assert (
            ask(("cat", begin), ("dog", begin + 100))
            == (begin + 100) // BLOCK_TOKENS * BLOCK_TOKENS
        )
        engine.settle()
    books.wait_quiet()


def test_models_do_not_share(daemon: Kvstowd, books: Books) -> None:
    answers = []
    for model in (tiny_llama(0), tiny_llama(1), tiny_llama(0)):
        options = connector(daemon.target, tenant="models", **PATIENT)
        with running_engine(model, options) as engine:
            answers += engine.run(PROMPT)
            engine.settle()
        books.wait_quiet()
    assert [answer.cached_count for answer in answers] == [0, 0, CACHED]
    assert answers[0].tokens == answers[2].tokens != answers[1].tokens


@pytest.mark.parametrize(
    "change",
    [
        {"weights_version": "2"},
        {"tenant": "another"},
        {"block_size": 64},
        {"dtype": "bfloat16"},
        {"hf_overrides": {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_else_differs_is_not_shared(
    daemon: Kvstowd, books: Books, change: dict[str, object]
) -> None:
    answers = []
    for changed in ({}, change, {}):
        given = {"tenant": f"ways {change}", "weights_version": "1", **changed}
        options = {name: given.pop(name) for name in ("tenant", "weights_version")}
        with running_engine(
            tiny_llama(), connector(daemon.target, **options, **PATIENT), **given
        ) as engine:
            answers += engine.run(PROMPT)
            engine.settle()
        books.wait_quiet()
    assert [answer.cached_count for answer in answers] == [0, 0, CACHED]


def test_a_model_with_windows(daemon: Kvstowd, books: Books) -> None:
    """Two KV cache groups, of full attention and of sliding windows."""
    prompts = [prompt(seed, 100 + 150 * seed) for seed in range(4)]
    with running_engine(tiny_windowed(), enable_prefix_caching=False) as engine:
        expected = [answer.tokens for answer in engine.run(*prompts)]
    options = connector(daemon.target, **PATIENT)
    with running_engine(tiny_windowed(), options) as engine:
        assert len(engine.scheduler.kv_cache_config.kv_cache_groups) == 2
        assert [answer.tokens for answer in engine.run(*prompts)] == expected
        engine.forget()
        books.wait_quiet()
        warm = engine.run(*prompts)
        assert [answer.tokens for answer in warm] == expected
        assert all(answer.cached_count for answer in warm)
        engine.settle()
    books.wait_quiet()
