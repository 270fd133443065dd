"""`kvstow top`: what the daemon does between two looks."""

import json
from types import SimpleNamespace

import pytest

from cli.running import invoke, run
from kvstow.cli import top
from kvstow.client import Client
from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2
from support.client_engine import BLOCK_BYTES, PATIENT, ClientEngine
from support.kvstowd import Kvstowd

MIB = 1 << 20


def look(at: float, boot_id: str = "a", stored_bytes: int = 0, **counters: int) -> top.Look:
    """A daemon with one space."""
    space = admin_pb2.Space(
        space_id=7,
        identity=identity_pb2.Identity(model="model", tenant="t"),
        counters=admin_pb2.SpaceCounters(**counters),
    )
    space.identity.layout.world_size = 2
    space.identity.layout.groups.add(segment_bytes=[MIB])
    slots = admin_pb2.SlotStats(
        slot_bytes=MIB, extents=1, slot_count=8, free_count=2, evictable_count=3, held_count=1,
        writing_count=1, quarantined_count=1,
    )  # fmt: skip
    stats = admin_pb2.GetStatsResponse(
        pool_bytes=16 * MIB, free_extents=1, slots=[slots], stored_bytes=stored_bytes
    )
    oldest = admin_pb2.ListTransfersResponse(
        total_count=5, transfers=[admin_pb2.Transfer(age_s=61)]
    )
    info = cache_pb2.GetServerInfoResponse(
        boot_id=boot_id, state=cache_pb2.SERVER_STATE_READY, version="1", uptime_s=3700
    )
    return top.Look(at, info, {7: space}, 3, oldest, 2, stats)


def test_ratios_and_rates_are_of_the_time_between_the_looks() -> None:
    before = look(10, stored_bytes=MIB, lookups=4, hit_count=100, missed_count=0)
    now = look(12, stored_bytes=5 * MIB, lookups=10, hit_count=101, missed_count=3, loaded_count=8)
    found = top.flow(before, now)
    (space,) = found.spaces
    assert (space.hit_ratio, space.lookups_per_s, space.loaded_per_s) == (0.25, 3.0, 4.0)
    assert space.hit_ratio_ever == 101 / 104
    assert (found.elapsed_s, found.stored_bytes_per_s) == (2.0, 2 * MIB)


def test_without_a_lookup_there_is_no_ratio() -> None:
    (space,) = top.flow(look(10, hit_count=5), look(11, hit_count=5)).spaces
    assert (space.hit_ratio, space.hit_ratio_ever) == (None, 1.0)


def test_what_a_daemon_did_before_its_restart_counts_nowhere() -> None:
    found = top.flow(look(10, hit_count=9, stored_bytes=99), look(12, "b", hit_count=1))
    assert (found.elapsed_s, found.stored_bytes_per_s) == (0.0, 0.0)
    assert found.spaces[0].hit_ratio is None


def test_the_pool_is_divided_by_state() -> None:
    shares = top.flow(look(1), look(2)).pool_bytes
    assert {state: count // MIB for state, count in shares.items()} == {
        "free": 10, "evictable": 3, "held": 1, "writing": 1, "quarantined": 1,
    }  # fmt: skip


def test_the_json_lines_say_the_same(daemon: Kvstowd, engine: ClientEngine) -> None:
    with daemon.held_stores():
        engine.begin_store([9], [9])
        result = run(daemon, "top", "--count", "2", "--interval", "0.1", "--json")
    assert result.exit_code == 0
    first, _ = [json.loads(line) for line in result.stdout.splitlines()]
    assert (first["state"], first["session_count"], first["in_flight_count"]) == ("ready", 1, 1)
    assert first["oldest_age_s"] > 0
    assert (first["pool_bytes"]["writing"], first["pool_bytes"]["held"]) == (
        BLOCK_BYTES,
        3 * BLOCK_BYTES,
    )
    (space,) = first["spaces"]
    assert (space["model"], space["ready_count"], space["hit_ratio_ever"]) == ("model", 3, 0.75)


def test_bytes_are_those_that_were_copied(daemon: Kvstowd, engine: ClientEngine) -> None:
    with Client(daemon.target, PATIENT) as client:
        before = client.administration.stats()
        engine.load([1, 2], [5, 6])
        engine.store([4], [3])
        after = client.administration.stats()
    assert after.stored_bytes - before.stored_bytes == BLOCK_BYTES
    assert after.loaded_bytes - before.loaded_bytes == 2 * BLOCK_BYTES


def test_top_shows_what_happens_between_two_looks(daemon: Kvstowd, engine: ClientEngine) -> None:
    with daemon.held_stores():
        engine.begin_store([9], [9])
        result = run(daemon, "top", "--count", "2", "--interval", "0.1")
    assert result.exit_code == 0
    assert "1 sessions" in result.stdout
    assert "1 transfers in flight, the oldest for" in result.stdout
    assert "pool of 1.0 MiB: 99.6 % free" in result.stdout
    assert "75.0 %" in result.stdout
    assert result.stdout.endswith("\n")


def test_top_leaves_nothing_out_where_there_is_no_screen(daemon: Kvstowd) -> None:
    environment = {"KVSTOW_TARGET": daemon.target, "COLUMNS": "80"}
    shown = invoke(["top", "--count", "2", "--interval", "0.1"], env=environment).stdout
    assert shown.count("lookups/s") == 2
    assert "not shown" not in shown


@pytest.mark.parametrize("words", [["top"], ["top", "--json"]])
def test_top_ends_well_with_an_interrupt(
    daemon: Kvstowd, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvstow.cli.watching.time", SimpleNamespace(sleep=interrupt))
    assert run(daemon, *words).exit_code == 0


def test_a_daemon_that_goes_away_is_said_and_looked_for(
    own: Kvstowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = SimpleNamespace(sleep=lambda _: own.kill())
    monkeypatch.setattr("kvstow.cli.watching.time", going)
    result = run(own, "top", "--count", "2", "--json")
    assert result.exit_code == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["no daemon listens" in line["error"] for line in lines] == [True, True]
