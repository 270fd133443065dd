"""A store that fails is made again; nothing that was not copied is found, and answers are right."""

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import PATIENT, connector, prompt, running_engine
from vllm_engine.faults import failed_stores
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPTS = [prompt(seed, 150 + 100 * seed) for seed in range(4)]
GENERATE = 40
BLOCKS = [(len(tokens) + GENERATE - 1) // BLOCK_TOKENS for tokens in PROMPTS]


def test_all_is_stored_in_the_end(daemon: Kvstowd, books: Books) -> None:
    """Every second store fails, in its first block or in all, until the requests are over."""
    tenant = "failed stores"
    with running_engine(
        tiny_llama(), connector(daemon.target, tenant=tenant, **PATIENT)
    ) as engine:
        with (
            failed_stores(daemon, blocks=[0], every=2) as some,
            failed_stores(daemon, every=2) as all_of_them,
        ):
            cold = engine.run(*PROMPTS, generate=GENERATE)
            engine.settle()
            assert some() + all_of_them()
        engine.run(*PROMPTS, generate=GENERATE)
        engine.forget()
        books.wait_quiet()
        assert books.ready_count_of(tenant) == sum(BLOCKS)
        warm = engine.run(*PROMPTS, generate=GENERATE)
        assert [answer.tokens for answer in warm] == [answer.tokens for answer in cold]
        assert [answer.cached_count for answer in warm] == [
            (len(tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS for tokens in PROMPTS
        ]
        engine.settle()
    books.wait_quiet()
