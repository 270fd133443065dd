"""Speculative decoding with n-grams of the prompt: what was guessed wrong is never stored."""

from support.kvstowd import Kvstowd
from vllm_engine.books import Books
from vllm_engine.engine import prompt, running_engine
from vllm_engine.serve import engine_process
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

# Long ones, so that what is generated occurs in them, and something is guessed to follow.
PROMPTS = [prompt(seed, 500 + seed) for seed in range(2)]
GENERATE = 70
NGRAMS = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_max": 3,
    "prompt_lookup_min": 1,
}


def test_what_was_guessed_wrong_is_not_stored(daemon: Kvstowd, books: Books) -> None:
    """vLLM's guessing prevents further engines in a process, so this one has its own."""
    with running_engine(tiny_llama(), enable_prefix_caching=False) as engine:
        expected = [answer.tokens for answer in engine.run(*PROMPTS, generate=GENERATE)]
        longer = [
            [*tokens, *answer, 1, 2, 3] for tokens, answer in zip(PROMPTS, expected, strict=True)
        ]
        continued = [answer.tokens for answer in engine.run(*longer)]
    with engine_process(tiny_llama(), daemon.target, speculative_config=NGRAMS) as guessing:
        answers = guessing.run(*PROMPTS, generate=GENERATE)
        assert [answer.tokens for answer in answers] == expected
        guessing.forget()
        books.wait_quiet()
        found = guessing.run(*longer)
        assert [answer.tokens for answer in found] == continued
        assert [answer.cached_count for answer in found] == [
            (len(tokens) + GENERATE - 1) // BLOCK_TOKENS * BLOCK_TOKENS for tokens in PROMPTS
        ]
