"""`kvstow misses`: at which keys lookups ended, asked of a real daemon with a small pool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import ask, invoke, run
from kvstow.client import Client, Credentials, Identity
from security.rig import ENGINE_A, ENGINE_B, ENTRIES, READER, write
from support.client_engine import IDENTITY, PATIENT, ClientEngine, connected_engine, keys
from support.kvstowd import Kvstowd, placed_kvstowd, running_kvstowd


@pytest.fixture
def small() -> Iterator[Kvstowd]:
    """A daemon with room for eight blocks."""
    with placed_kvstowd(pool_size="8KiB", extent_size="8KiB") as running:
        yield running


@pytest.fixture
def engine(small: Kvstowd) -> Iterator[ClientEngine]:
    with connected_engine(small.target) as connected:
        yield connected


def test_what_was_evicted_is_said_to_be_although_it_was_stored_again(
    small: Kvstowd, engine: ClientEngine
) -> None:
    engine.store(range(1, 9), range(8))
    engine.store([11, 12], [8, 9])
    gone = [number for number in range(1, 9) if engine.lookup([number]).count == 0]
    engine.store([gone[-1]], [10])
    assert engine.lookup([gone[-1]]).count == 1
    newest, *_ = found = ask(small, "misses")
    (key,) = keys([gone[-1]])
    assert (newest["key"], newest["fate"], newest["lookup_count"]) == (key.hex(), "evicted", 1)
    assert newest["fate_age_s"] > newest["age_s"]
    assert [each["fate"] for each in found] == ["evicted"] * len(gone)
    shown = run(small, "misses").stdout
    assert f"space 2 (model), keys at which lookups ended: {len(gone)} evicted" in shown
    assert "ago to make room" in shown
    assert "--limit" not in shown
    assert len(ask(small, "misses", "--limit", "1")) == 1


def test_a_new_prompt_is_none_to_worry_about(small: Kvstowd, engine: ClientEngine) -> None:
    engine.store([1, 2], [0, 1])
    engine.lookup([1, 2, 3, 4])
    (miss,) = ask(small, "misses")
    assert (miss["hit_count"], miss["key_count"], miss["fate"]) == (2, 4, "unknown")
    assert "nothing, if the prompt is new" in miss["advice"]
    assert "2 of 4" in run(small, "misses").stdout


def test_a_space_can_be_named(small: Kvstowd, engine: ClientEngine) -> None:
    other = Identity()
    other.CopyFrom(IDENTITY)
    other.model = "other"
    with Client(small.target, PATIENT) as client, client.open(other, "another engine") as session:
        assert session.lookup("request", keys([7])).count == 0
        engine.lookup([8])
        assert {miss["model"] for miss in ask(small, "misses")} == {"model", "other"}
        (miss,) = ask(small, "misses", "--space", "other")
        assert [bytes.fromhex(miss["key"])] == keys([7])


def test_without_a_miss_nothing_is_listed(small: Kvstowd, engine: ClientEngine) -> None:
    engine.store([1], [0])
    engine.lookup([1])
    assert ask(small, "misses") == []
    assert run(small, "misses").stdout == "No lookup has missed a key.\n"


@pytest.mark.parametrize(("token", "code"), [(ENGINE_A, 1), (ENGINE_B, 0), (READER, 0)])
def test_no_engine_is_shown_keys(directory: Path, token: str, code: int) -> None:
    """Neither another tenant's, of which it does not even see the space, nor its own."""
    tokens, theirs, mine = (directory / name for name in ("tokens", "theirs", "mine"))
    write(tokens, ENTRIES)
    theirs.write_text(ENGINE_A)
    mine.write_text(token)
    (missed,) = keys([7])
    with (
        running_kvstowd(directory, tokens=tokens) as daemon,
        connected_engine(daemon.target, Credentials(token_file=theirs)) as engine,
    ):
        engine.lookup([7])
        words = ["misses", "--target", daemon.target, "--token-file", str(mine)]
        result = invoke(words)
    assert result.exit_code == code, result.output
    assert (missed.hex() in result.output) == (token == READER)
    assert ("NOT_PERMITTED" in result.output) == (token == ENGINE_A)
