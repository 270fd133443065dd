"""`kvstow why-miss`: what became of keys, asked of a real daemon with a small pool."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.running import ask, emptied, run
from kvstow.cli.app import app
from support.client_engine import ClientEngine, connected_engine, keys
from support.kvstowd import Kvstowd, placed_kvstowd
from support.waiting import wait_for

SLOTS = 8


@pytest.fixture(scope="module")
def small() -> Iterator[Kvstowd]:
    """A daemon with room for eight blocks."""
    sizes = {"pool_size": "8KiB", "extent_size": "8KiB"}
    with placed_kvstowd(debug_service=True, **sizes) as running:
        yield running


@pytest.fixture
def tight(small: Kvstowd) -> Iterator[ClientEngine]:
    with emptied(small), connected_engine(small.target) as connected:
        yield connected


def named(numbers: Sequence[int]) -> list[str]:
    return [key.hex() for key in keys(numbers)]


def fates(daemon: Kvstowd, numbers: Sequence[int]) -> list[str]:
    return [found["fate"] for found in ask(daemon, "why-miss", *named(numbers))["keys"]]


def test_what_was_evicted_and_what_was_never_offered(small: Kvstowd, tight: ClientEngine) -> None:
    tight.store(range(1, 9), range(8))
    tight.store([11, 12], [8, 9])
    found = ask(small, "why-miss", *named([1, 2, 3, 4, 5, 6, 7, 8, 11, 99]))
    told = [key["fate"] for key in found["keys"]]
    assert (told.count("evicted"), told[-2:]) == (2, ["ready", "unknown"])
    assert found["hit_count"] == told.index("evicted")
    (first, *_) = [key for key in found["keys"] if key["fate"] == "evicted"]
    assert first["age_s"] >= 0
    assert "ago to make room" in first["reason"]
    assert "pool_size" in first["advice"]


def test_what_a_reset_dropped(small: Kvstowd, tight: ClientEngine) -> None:
    tight.store([1], [0])
    generation = ask(small, "spaces")[0]["generation"]
    tight.session.reset()
    (found,) = ask(small, "why-miss", *named([1]))["keys"]
    assert (found["fate"], found["generation"]) == ("reset", generation)


def test_what_is_being_written(small: Kvstowd, tight: ClientEngine) -> None:
    with small.held_stores():
        tight.begin_store([1], [0])
        assert fates(small, [1, 2]) == ["writing", "unknown"]


def test_what_was_refused_for_lack_of_space(small: Kvstowd, tight: ClientEngine) -> None:
    tight.store(range(1, 9), range(8))
    assert tight.lookup(range(1, 9)).count == SLOTS  # and holds them
    tight.begin_store([21], [9])
    wait_for(lambda: fates(small, [21]) == ["no_space"], "the refusal")


def test_a_prefix_that_is_there(small: Kvstowd, tight: ClientEngine) -> None:
    tight.store([1, 2], [0, 1])
    result = run(small, "why-miss", *named([1, 2]))
    assert "all 2 keys are READY" in result.stdout


def test_keys_may_come_by_standard_input(small: Kvstowd, tight: ClientEngine) -> None:
    tight.store([1], [0])
    lines = "\n".join(named([1, 2]))
    result = run(small, "why-miss", "--file", "-", "--space", "model", answer=lines)
    assert result.exit_code == 0, result.output
    assert "1 of 2 keys are hits; key 1 misses: not offered" in result.stdout


def test_asking_changes_nothing(small: Kvstowd, tight: ClientEngine) -> None:
    tight.store([1], [0])
    before = ask(small, "spaces")
    run(small, "why-miss", *named([1, 2]))
    assert ask(small, "spaces") == before


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["why-miss"], "name keys"),
        (["why-miss", "xyz"], "hexadecimal"),
        (["why-miss", "0102"], "bytes"),
        (["why-miss", "--space", "none", "00" * 16], "no space is"),
    ],
)
def test_what_cannot_be_asked_is_said(
    small: Kvstowd, tight: ClientEngine, words: list[str], complaint: str
) -> None:
    result = run(small, *words)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_group_that_is_not_there_is_refused(small: Kvstowd, tight: ClientEngine) -> None:
    result = run(small, "why-miss", "--group", "1", *named([1]))
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert "INVALID_REQUEST" in line


def test_without_a_daemon(tmp_path: Path) -> None:
    target = f"unix:{tmp_path}/none"
    assert CliRunner().invoke(app, ["why-miss", "00", "--target", target]).exit_code == 3
