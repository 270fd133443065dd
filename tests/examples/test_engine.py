"""Requests from prompt to answer: what is reused changes nothing, and copies keep their blocks."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager

import pytest
import torch
from torch import Tensor

from examples.engine.blocks import OutOfBlocks
from examples.engine.engine import Engine
from examples.engine.memory import KvLayout, KvMemory
from examples.engine.prefix import BLOCK_TOKENS, chain_hashes
from examples.engine.request import Answer, Request, TooLong
from examples.engine.weights import TINY, random_weights

WEIGHTS = random_weights()
DOCUMENT = [7 * place % 251 for place in range(10 * BLOCK_TOKENS)]
QUESTION = [*DOCUMENT, 1, 2, 3]


class DictCache:
    """Blocks by hash in a dict, outside of any engine; its copies can be held or made to fail."""

    def __init__(self) -> None:
        self.content: dict[bytes, Tensor] = {}
        self.generation = 1
        self.memory = torch.empty(0)
        self.holds_stores = self.holds_loads = False
        self.fails_loads = False
        self.held: list[Future[bool]] = []
        self.offers: list[Sequence[bytes]] = []
        self.loads = 0

    def lookup(self, hashes: Sequence[bytes]) -> int:
        present = [block_hash in self.content for block_hash in hashes]
        return present.index(False) if False in present else len(present)

    def load(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> Future[bool]:
        self.loads += 1
        if self.holds_loads:
            return self._hold()
        for block_hash, block in zip(hashes, blocks, strict=True):
            self.memory[:, block] = float("nan") if self.fails_loads else self.content[block_hash]
        return ended(not self.fails_loads)

    def store(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> Future[bool]:
        self.offers.append(hashes)
        if self.holds_stores:
            return self._hold()
        for block_hash, block in zip(hashes, blocks, strict=True):
            self.content[block_hash] = self.memory[:, block].clone()
        return ended(True)

    def begin(self) -> "DictCache":
        return self

    def count(self, hashes: Sequence[bytes]) -> int:
        return self.lookup(hashes)

    def reset(self) -> None:
        self.content.clear()
        self.generation += 1

    def _hold(self) -> Future[bool]:
        self.held.append(Future())
        return self.held[-1]


def ended(outcome: bool) -> Future[bool]:
    future: Future[bool] = Future()
    future.set_result(outcome)
    return future


@contextmanager
def running_engine(
    external: DictCache | None = None, *, block_count: int = 32, copy_budget_s: float = 30.0
) -> Iterator[Engine]:
    """An engine of the tiny model; its books are checked at the end."""
    with closing(KvMemory(KvLayout.for_model(TINY, block_count))) as memory:
        if external is not None:
            external.memory = memory.tensor
        engine = Engine(WEIGHTS, memory, external, copy_budget_s=copy_budget_s)
        yield engine
        engine.allocator.check()


def ask(engine: Engine, prompt: Sequence[int] = QUESTION, *, salt: bytes = b"") -> Answer:
    return engine.generate(Request(prompt, max_new_tokens=20, salt=salt))


@pytest.fixture(scope="module")
def uncached() -> tuple[int, ...]:
    """The answer to QUESTION of an engine that has seen nothing."""
    with running_engine() as engine:
        answer = ask(engine)
    assert answer.local_tokens == answer.external_tokens == 0
    assert len(answer.tokens) == 20
    assert len(set(answer.tokens)) > 5, "an answer that any prompt would get proves nothing"
    return answer.tokens


def test_a_prefix_found_in_the_engine_changes_no_token(uncached: tuple[int, ...]) -> None:
    with running_engine() as engine:
        ask(engine, [*DOCUMENT, 9, 9])
        answer = ask(engine)
    assert answer.tokens == uncached
    assert answer.local_tokens == len(DOCUMENT)


def test_an_answer_is_reused_with_its_prompt() -> None:
    with running_engine() as engine:
        first = ask(engine)
        conversation = [*QUESTION, *first.tokens]
        second = ask(engine, [*conversation, 4, 5])
    # The last generated token has no keys and values yet.
    assert second.local_tokens == (len(conversation) - 1) // BLOCK_TOKENS * BLOCK_TOKENS


def test_the_last_prompt_token_is_never_cached() -> None:
    with running_engine() as engine:
        ask(engine, DOCUMENT)
        answer = ask(engine, DOCUMENT)
    assert answer.local_tokens == len(DOCUMENT) - BLOCK_TOKENS


def test_another_salt_finds_nothing(uncached: tuple[int, ...]) -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine, salt=b"one")
        answer = ask(engine, salt=b"other")
    assert answer.tokens == uncached
    assert answer.local_tokens == answer.external_tokens == 0


def test_a_request_that_opted_out_reads_nothing_and_still_stores() -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
        stored = dict.fromkeys(external.content)
        external.reset()
        answer = engine.generate(Request(QUESTION, 20, reads_cache=False))
    assert answer.local_tokens == answer.external_tokens == 0
    assert external.loads == 0
    assert external.content.keys() == stored.keys()


def test_a_new_engine_gets_the_prefix_from_outside(uncached: tuple[int, ...]) -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
    with running_engine(external) as engine:
        answer = ask(engine)
        again = ask(engine)
    assert answer.tokens == again.tokens == uncached
    assert (answer.local_tokens, answer.external_tokens) == (0, len(DOCUMENT))
    assert (again.local_tokens, again.external_tokens) == (len(DOCUMENT), 0)


def test_what_is_not_here_is_loaded_behind_what_is(uncached: tuple[int, ...]) -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
    with running_engine(external) as engine:
        ask(engine, DOCUMENT[: 4 * BLOCK_TOKENS])
        answer = ask(engine)
    assert answer.tokens == uncached
    assert answer.local_tokens == 4 * BLOCK_TOKENS
    assert answer.external_tokens == 6 * BLOCK_TOKENS


def test_a_failed_load_is_computed_instead(uncached: tuple[int, ...]) -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
    external.fails_loads = True
    with running_engine(external) as engine:
        answer = ask(engine)
        assert engine.drain(0)
        assert engine.allocator.free_count == 32
    assert answer.tokens == uncached
    assert answer.external_tokens == 0


def test_blocks_of_an_overdue_load_are_not_used_until_it_ends(uncached: tuple[int, ...]) -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
    external.holds_loads = True
    with running_engine(external, copy_budget_s=0.01) as engine:
        answer = ask(engine)
        assert answer.tokens == uncached
        assert answer.external_tokens == 0
        assert not engine.drain(0)
        assert engine.allocator.free_count == 32 - len(DOCUMENT) // BLOCK_TOKENS
        external.held[0].set_result(True)
        assert engine.drain(0)
        assert engine.allocator.free_count == 32


def test_blocks_of_a_held_store_are_not_used_until_it_ends() -> None:
    external = DictCache()
    external.holds_stores = True
    with running_engine(external, block_count=16, copy_budget_s=0.01) as engine:
        ask(engine)
        held = len(DOCUMENT) // BLOCK_TOKENS + 1
        assert engine.allocator.free_count == 16 - held
        with pytest.raises(OutOfBlocks):
            ask(engine, [5] * len(DOCUMENT))
        assert engine.allocator.free_count == 16 - held
        for store in external.held:
            store.set_result(False)
        ask(engine, [5] * len(DOCUMENT))


def test_after_a_reset_nothing_is_found_here_or_outside(uncached: tuple[int, ...]) -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
        engine.reset()
        answer = ask(engine)
    assert answer.tokens == uncached
    assert answer.local_tokens == answer.external_tokens == 0


def test_after_somebody_elses_reset_nothing_is_found_here_either() -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
        external.reset()
        assert engine.count(QUESTION) == (0, 0)
        answer = ask(engine)
        assert answer.local_tokens == answer.external_tokens == 0


def test_counting_finds_what_a_request_would_reuse_and_keeps_nothing() -> None:
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine)
        blocks = len(DOCUMENT) // BLOCK_TOKENS
        assert engine.count(QUESTION) == (blocks, 0)
        assert engine.count(QUESTION, salt=b"other") == (0, 0)
        assert engine.drain(0)
        assert engine.allocator.free_count == 32
    with running_engine(external) as engine:
        ask(engine, DOCUMENT[: 4 * BLOCK_TOKENS])
        assert engine.count(QUESTION) == (4, blocks - 4)


def test_blocks_are_stored_as_soon_as_they_are_complete() -> None:
    """So that a killed engine leaves behind what it had computed."""
    external = DictCache()
    stored: list[int] = []
    with running_engine(external) as engine:
        engine.generate(
            Request(QUESTION, 20), on_prefill=lambda done: stored.append(len(external.content))
        )
    # After 64, 128 and 163 prompt tokens.
    assert stored == [4, 8, 10]
    assert len(external.content) == (len(QUESTION) + 19) // BLOCK_TOKENS


def test_what_an_engine_still_has_is_offered_again() -> None:
    """The external cache may have evicted it, or may be another one than before."""
    external = DictCache()
    with running_engine(external) as engine:
        ask(engine, DOCUMENT)
        external.content.clear()
        engine.generate(Request([*DOCUMENT, 1], max_new_tokens=1))
    assert len(external.content) == len(DOCUMENT) // BLOCK_TOKENS


def test_all_blocks_of_a_request_are_named_together_in_the_end() -> None:
    """What a cache has to evict of them it can evict from the end then."""
    external = DictCache()
    with running_engine(external) as engine:
        answer = ask(engine)
    tokens = [*QUESTION, *answer.tokens][:-1]
    assert len(external.offers[0]) < len(external.offers[-1])
    assert external.offers[-1] == chain_hashes(tokens)


def test_the_end_token_ends_an_answer_and_is_not_part_of_it(uncached: tuple[int, ...]) -> None:
    end_token = uncached[5]
    with running_engine() as engine:
        answer = engine.generate(Request(QUESTION, 20, end_token=end_token))
    assert answer.tokens == uncached[: uncached.index(end_token)]


def test_what_cannot_be_served_is_refused_and_takes_no_block() -> None:
    with running_engine() as engine:
        with pytest.raises(TooLong):
            ask(engine, [1] * TINY.context_tokens)
        with pytest.raises(OutOfBlocks):
            ask(engine, [1] * 32 * BLOCK_TOKENS)
        with pytest.raises(ValueError, match="needs a prompt"):
            ask(engine, [])
        assert engine.allocator.free_count == 32
