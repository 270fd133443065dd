"""The engine with a real daemon behind it: found, away, gone and back, reset."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from examples.demo.daemon import DaemonProcess, wait_for
from examples.engine.engine import Engine
from examples.engine.memory import KvLayout, KvMemory
from examples.engine.prefix import BLOCK_TOKENS, chain_hashes
from examples.engine.request import Answer, Request
from examples.engine.stow import StowCache, open_session
from examples.engine.weights import TINY, random_weights
from kvstow.client import Callbacks, Client, Session, SessionState
from support.client_engine import PATIENT
from support.waiting import DEADLINE_S

WEIGHTS = random_weights()
DOCUMENT = [7 * place % 251 for place in range(10 * BLOCK_TOKENS)]
REQUEST = Request([*DOCUMENT, 1, 2, 3], max_new_tokens=20)


@contextmanager
def running_daemon(directory: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(directory)
    try:
        daemon.wait_ready()
        yield daemon
    finally:
        daemon.stop()


@contextmanager
def running_engine(directory: Path) -> Iterator[tuple[Engine, Session]]:
    """An engine whose daemon is, or will be, in this directory; a busy machine makes no miss of a hit."""
    with (
        closing(KvMemory(KvLayout.for_model(TINY, 64))) as memory,
        Client(f"unix:{directory / 'kvstow.sock'}", PATIENT) as client,
        open_session(client, WEIGHTS, memory, "engine", Callbacks()) as session,
    ):
        yield Engine(WEIGHTS, memory, StowCache(session), copy_budget_s=DEADLINE_S), session


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """The answer to REQUEST without a daemon, which is a miss and nothing worse."""
    with running_engine(tmp_path_factory.mktemp("nobody")) as (engine, _):
        return engine.generate(REQUEST)


def test_what_one_engine_stored_the_next_one_loads(tmp_path: Path, answer: Answer) -> None:
    with running_daemon(tmp_path):
        with running_engine(tmp_path) as (engine, _):
            assert engine.generate(REQUEST).tokens == answer.tokens
            assert engine.drain(60)
        with running_engine(tmp_path) as (engine, _):
            loaded = engine.generate(REQUEST)
    assert answer.external_tokens == 0
    assert loaded.external_tokens == len(DOCUMENT)
    assert loaded.tokens == answer.tokens


def test_a_daemon_that_goes_is_a_miss_and_one_that_comes_is_used(
    tmp_path: Path, answer: Answer
) -> None:
    with running_engine(tmp_path) as (engine, session):
        with running_daemon(tmp_path):
            wait_for(lambda: session.state is SessionState.OPEN, "the session is open")
            engine.generate(REQUEST)
            assert engine.drain(60)
        wait_for(lambda: session.state is not SessionState.OPEN, "the session is lost")
        alone = engine.generate(Request(REQUEST.prompt, 20, reads_cache=False))
        assert alone.tokens == answer.tokens
        assert engine.drain(60)
        with running_daemon(tmp_path):
            wait_for(lambda: session.state is SessionState.OPEN, "the session is open again")
            engine.generate(REQUEST)
            assert engine.drain(60)
            with running_engine(tmp_path) as (other, _):
                assert other.generate(REQUEST).external_tokens == len(DOCUMENT)


def test_what_was_begun_before_a_reset_neither_stores_nor_finds_anything_after_it(
    tmp_path: Path,
) -> None:
    hashes = chain_hashes(DOCUMENT)[:4]
    with (
        running_daemon(tmp_path) as daemon,
        Client(daemon.target, PATIENT) as administrator,
        running_engine(tmp_path) as (engine, session),
    ):
        begun = StowCache(session).begin()
        (space,) = administrator.administration.spaces()
        administrator.administration.reset_space(space.space_id)
        assert not begun.store(hashes, [0, 1, 2, 3]).result(60)
        with running_engine(tmp_path) as (other, _):
            other.generate(REQUEST)
            assert other.drain(60)
            assert StowCache(session).count(hashes) == 4
        assert begun.lookup(hashes) == 0
        wait_for(lambda: not administrator.administration.leases().total_count, "no lease is left")
        assert StowCache(session).begin().generation != begun.generation
        assert engine.generate(REQUEST).external_tokens == len(DOCUMENT)


def test_an_engines_reset_empties_the_space_for_all(tmp_path: Path) -> None:
    with (
        running_daemon(tmp_path),
        running_engine(tmp_path) as (engine, _),
        running_engine(tmp_path) as (other, _),
    ):
        engine.generate(REQUEST)
        assert engine.drain(60)
        assert other.count(REQUEST.prompt) == (0, len(DOCUMENT) // BLOCK_TOKENS)
        engine.reset()
        assert other.count(REQUEST.prompt) == (0, 0)
        assert engine.count(REQUEST.prompt) == (0, 0)
