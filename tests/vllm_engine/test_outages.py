"""The daemon goes away in every manner while requests run: every request ends with the right tokens, and caching comes back."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from client.faults import stopped
from kvstow.client.engines.offload.options import Options
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import wait_for
from vllm_engine.books import open_books
from vllm_engine.engine import (
    PATIENT,
    OpenEngine,
    connector,
    prompt,
    repeat_until,
    running_engine,
    started_engine,
)
from vllm_engine.tiny import BLOCK_TOKENS, tiny_llama

PROMPTS = [prompt(seed % 10, 100 + 10 * (seed % 10)) for seed in range(20)]
GENERATE = 12
SETTINGS = {"pool_size": "64MiB", "session_grace_s": 600}


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    """What an engine without a connector answers."""
    with running_engine(tiny_llama(), enable_prefix_caching=False) as engine:
        return [answer.tokens for answer in engine.run(*PROMPTS, generate=GENERATE)]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Where the daemons of this module have their socket, one after the other."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def engine(expected: object, place: Path) -> Iterator[OpenEngine]:
    """An engine that starts before there is any daemon."""
    options = connector(f"unix:{place / 'kvstow.sock'}", **PATIENT)
    with started_engine(tiny_llama(), options, num_gpu_blocks_override=512) as running:
        yield running


def begin(engine: OpenEngine) -> list[str]:
    """Put all requests and take some steps, so that they are at different points."""
    names = [engine.add(tokens, GENERATE) for tokens in PROMPTS]
    for _ in range(6):
        engine.step()
    return names


def finish(engine: OpenEngine, names: list[str], expected: list[tuple[int, ...]]) -> None:
    """All end, and well."""
    assert [answer.tokens for answer in engine.finish(*names)] == expected


def comes_back(engine: OpenEngine, daemon: Kvstowd, expected: list[tuple[int, ...]]) -> None:
    """After an outage it is not long until the cache is filled and used again."""
    with open_books(daemon.target) as books:
        before = books.counters().loaded_count

        def ask() -> None:
            assert [each.tokens for each in engine.run(*PROMPTS, generate=GENERATE)] == expected
            engine.forget()

        repeat_until(
            ask,
            lambda: books.counters().loaded_count > before,
            "blocks from a daemon that is back",
        )
        books.wait_quiet()


def test_absent_at_the_start(
    engine: OpenEngine, place: Path, expected: list[tuple[int, ...]]
) -> None:
    finish(engine, begin(engine), expected)
    engine.forget()
    assert engine.run(PROMPTS[-1])[0].cached_count == 0
    engine.forget()
    with running_kvstowd(place, **SETTINGS) as daemon:
        comes_back(engine, daemon, expected)


def kill(daemon: Kvstowd) -> None:
    """Take it away."""
    daemon.kill()


def drain(daemon: Kvstowd) -> None:
    """Let it end in its own way."""
    daemon.terminate()
    daemon.wait_exit()


@pytest.mark.parametrize("end", [kill, drain])
@pytest.mark.parametrize("warm", [False, True], ids=["storing", "loading"])
def test_ends_and_is_started_again(
    engine: OpenEngine,
    place: Path,
    expected: list[tuple[int, ...]],
    end: Callable[[Kvstowd], None],
    warm: bool,
) -> None:
    with running_kvstowd(place, **SETTINGS) as daemon:
        if warm:
            comes_back(engine, daemon, expected)
        names = begin(engine)
        end(daemon)
        finish(engine, names, expected)
        engine.forget()
        finish(engine, begin(engine), expected)
        engine.forget()
    with running_kvstowd(place, **SETTINGS) as daemon:
        comes_back(engine, daemon, expected)


@contextmanager
def frozen(engine: OpenEngine, daemon: Kvstowd) -> Iterator[None]:
    """It stands still meanwhile, and its engine is no more patient than engines are."""
    half, usual = engine.scheduler.connector._half.half, Options().budgets
    with (
        stopped(daemon.process),
        patch.object(half._finder, "_budget_s", usual.lookup_s),
        patch.object(half._session._transfers, "_budgets", usual),
    ):
        yield


def test_frozen(engine: OpenEngine, place: Path, expected: list[tuple[int, ...]]) -> None:
    """A load that the daemon may still make cannot be given up: such a request waits for it, and only such a one."""
    with running_kvstowd(place, **SETTINGS) as daemon:
        comes_back(engine, daemon, expected)
        waiting = begin(engine)
        with frozen(engine, daemon):
            others = [engine.add(prompt(50 + seed, 100), GENERATE) for seed in range(5)]
            engine.finish(*others)
        finish(engine, waiting, expected)
        comes_back(engine, daemon, expected)


def test_a_reset_that_the_daemon_did_not_hear(
    engine: OpenEngine, place: Path, expected: list[tuple[int, ...]]
) -> None:
    """It is said to have failed, nothing older is found all the same, and it is made as soon as it can be."""
    with running_kvstowd(place, **SETTINGS) as daemon, open_books(daemon.target) as books:
        comes_back(engine, daemon, expected)
        loaded = books.counters().loaded_count
        with frozen(engine, daemon):
            assert not engine.reset()
            assert engine.run(PROMPTS[-1], generate=GENERATE)[0].tokens == expected[-1]
            engine.forget()
        wait_for(lambda: books.counters().resets, "the reset that is owed")
        assert engine.run(PROMPTS[0], generate=GENERATE)[0].cached_count == 0
        assert books.counters().loaded_count == loaded
        comes_back(engine, daemon, expected)


def test_takes_few_keys_in_one_call(
    engine: OpenEngine, place: Path, expected: list[tuple[int, ...]]
) -> None:
    """Prompts are stored, found and loaded in full all the same."""
    with (
        running_kvstowd(place, **{**SETTINGS, "max_keys": 2}) as daemon,
        open_books(daemon.target) as books,
    ):
        comes_back(engine, daemon, expected)
        warm = engine.run(*PROMPTS, generate=GENERATE)
        assert [answer.tokens for answer in warm] == expected
        assert [answer.cached_count for answer in warm] == [
            (len(tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS for tokens in PROMPTS
        ]
        engine.forget()
        books.wait_quiet()


def test_too_small_for_all(
    engine: OpenEngine, place: Path, expected: list[tuple[int, ...]]
) -> None:
    """What does not fit is evicted or not stored."""
    with (
        running_kvstowd(place, **{**SETTINGS, "pool_size": "512KiB"}) as daemon,
        open_books(daemon.target) as books,
    ):
        comes_back(engine, daemon, expected)
        finish(engine, begin(engine), expected)
        engine.forget()
        books.wait_quiet()
        assert books.counters().evicted_count
