"""Resets as those who serve with vLLM make them: over HTTP, with the engine in a process of its own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.kvstowd import Kvstowd
from support.waiting import wait_for
from vllm_engine.books import Books
from vllm_engine.engine import prompt
from vllm_engine.http_server import HttpServer, http_server
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPT = prompt(1, 300)
CACHED = 300 // BLOCK_TOKENS * BLOCK_TOKENS
LONG = 600


@pytest.fixture(scope="module")
def server(daemon: Kvstowd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One for all tests."""
    log = tmp_path_factory.mktemp("vllm") / "log"
    with http_server(tiny_llama(), daemon.target, log) as running:
        yield running


def test_what_vllm_alone_forgets_comes_back_from_kvstow(server: HttpServer, books: Books) -> None:
    cold = server.ask(PROMPT)
    assert cold.cached_count == 0
    books.wait_quiet()
    assert books.ready_count_of("http") == CACHED // BLOCK_TOKENS
    assert server.reset()
    warm = server.ask(PROMPT)
    assert warm.cached_count == CACHED
    assert warm.tokens == cold.tokens
    assert 'vllm:kvstow_loaded_blocks_total{engine="0"' in server.metrics()


def test_a_reset_of_both_leaves_nothing(server: HttpServer, books: Books) -> None:
    first = server.ask(PROMPT)
    books.wait_quiet()
    assert server.reset(reset_external=True)
    assert not books.ready_count_of("http")
    again = server.ask(PROMPT)
    assert again.cached_count == 0
    assert again.tokens == first.tokens


def test_a_reset_under_a_request(server: HttpServer, books: Books) -> None:
    """With running requests it succeeds at once; they go on, and what they compute afterwards is stored."""
    alone = server.ask(PROMPT, LONG)
    assert server.reset(reset_external=True)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.ask, PROMPT, LONG)
        wait_for(lambda: books.ready_count_of("http"), "something to be stored")
        assert not asked.done()
        assert server.reset(reset_external=True, reset_running_requests=True)
        assert asked.result().tokens == alone.tokens
    books.wait_quiet()
    assert books.ready_count_of("http") == (len(PROMPT) + LONG - 1) // BLOCK_TOKENS
