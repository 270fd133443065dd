"""Where the KV cache of an engine on the CPU lies."""

from pathlib import Path

from support.kvstowd import running_kvstowd
from support.memory import shared_directory
from vllm_engine.books import open_books
from vllm_engine.engine import PATIENT, connector, prompt, running_engine
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPT = prompt(1, 300)


def test_it_lies_in_the_directory_that_the_daemon_opens_files_in(directory: Path) -> None:
    with (
        shared_directory() as place,
        running_kvstowd(directory, pool_size="64MiB", memory_path=place) as daemon,
        open_books(daemon.target) as books,
    ):
        options = connector(daemon.target, memory_path=str(place), **PATIENT)
        with running_engine(tiny_llama(), options) as engine:
            (file,) = place.iterdir()
            cold, *_ = engine.run(PROMPT)
            books.wait_quiet()
            engine.forget()
            warm, *_ = engine.run(PROMPT)
            engine.settle()
        books.wait_quiet()
        assert warm.cached_count == len(PROMPT) // BLOCK_TOKENS * BLOCK_TOKENS
        assert warm.tokens == cold.tokens
        assert not file.exists()
