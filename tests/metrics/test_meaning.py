"""The figures mean what the page says of them."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest

from cli.running import emptied
from kvstow.client import Client, Refused
from metrics.load import engine_to_kill
from support.client_engine import PATIENT, connected_engine, keys
from support.kvstowd import Kvstowd, placed_kvstowd, running_kvstowd
from support.waiting import DEADLINE_S, wait_for

POOL_BYTES = 1 << 20
RESULTS = ("hit", "pending", "miss")

Risen: TypeAlias = Callable[[], dict[str, float]]


@pytest.fixture(scope="module")
def shared() -> Iterator[Kvstowd]:
    """A daemon whose copies can be held."""
    with placed_kvstowd(debug_service=True) as running:
        yield running


@pytest.fixture
def daemon(shared: Kvstowd) -> Iterator[Kvstowd]:
    """The shared daemon, without spaces."""
    with emptied(shared):
        yield shared


@pytest.fixture
def risen(daemon: Kvstowd) -> Risen:
    """By how much the samples have risen since the test began."""
    before = daemon.metrics()

    def since() -> dict[str, float]:
        return {name: now - before.get(name, 0) for name, now in daemon.metrics().items()}

    return since


def looked_up(found: dict[str, float]) -> dict[str, float]:
    """The inputs of the hit ratio."""
    return {each: found.get(f"kvstow_lookup_blocks_total model {each} ", 0) for each in RESULTS}


def test_a_request_that_opted_out_counts_nowhere(daemon: Kvstowd, risen: Risen) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2], [0, 1])
        engine.lookup([1, 2, 3])
        before = risen()
        assert engine.session.lookup("out", keys([1, 2, 3]), skip_reading=True).count == 0
        after = risen()
    assert looked_up(before) == looked_up(after) == {"hit": 2, "pending": 0, "miss": 1}
    assert after["kvstow_lookups_total model "] == before["kvstow_lookups_total model "] == 1


def test_every_block_that_was_asked_for_is_a_hit_pending_or_a_miss(
    daemon: Kvstowd, risen: Risen
) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2], [0, 1])
        with daemon.held_stores():
            held = engine.begin_store([3], [2])
            hits = engine.lookup([1, 2, 3, 4, 5])
        assert held.wait(60)
        found = looked_up(risen())
    assert hits.groups[0].hit_count == 2
    assert found == {"hit": 2, "pending": 1, "miss": 2}


def test_the_states_of_the_pool_add_up_to_its_size(daemon: Kvstowd) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2, 3], [0, 1, 2])
        engine.lookup([1])
        with daemon.held_stores():
            engine.begin_store([4], [3])
            wait_for(lambda: daemon.metrics()["kvstow_pool_bytes writing"], "the held store")
            found = daemon.metrics()
    states = {name: size for name, size in found.items() if name.startswith("kvstow_pool_bytes ")}
    assert sum(states.values()) == POOL_BYTES
    assert found["kvstow_extents 1024"] == 1
    assert found["kvstow_extents none"] == 7


def test_an_engine_that_was_closed_is_told_from_one_that_was_lost(
    daemon: Kvstowd, risen: Risen
) -> None:
    with connected_engine(daemon.target):
        assert risen()["kvstow_sessions open"] == 1
    found = risen()
    assert found["kvstow_session_ends_total closed"] == 1
    assert found["kvstow_session_ends_total process_died"] == 0
    assert found["kvstow_sessions open"] == found["kvstow_sessions away"] == 0


def test_a_space_that_was_dropped_leaves_its_counts(daemon: Kvstowd, risen: Risen) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2], [0, 1])
        engine.load([1, 2], [2, 3])
    with Client(daemon.target, PATIENT) as client:
        before = risen()
        (space,) = client.administration.spaces()
        client.administration.drop_space(space.space_id)
    after = risen()
    assert after["kvstow_dropped_blocks_total drop_space"] == 2
    assert after["kvstow_dropped_blocks_total reset"] == 0
    for name in ("lookups", "stored_blocks", "loaded_blocks"):
        series = f"kvstow_{name}_total model "
        assert after[series] == before[series] > 0
    assert before["kvstow_resets_total model "] == 0
    assert after["kvstow_resets_total model "] == 1
    assert before["kvstow_blocks model ready "] == 2
    assert after["kvstow_blocks model ready "] == 0


def test_what_made_room_and_when_it_had_been_used(directory: Path) -> None:
    """The pool holds 64 blocks of this size; engines have 16."""
    with (
        running_kvstowd(directory, pool_size="64KiB", extent_size="8KiB") as daemon,
        connected_engine(daemon.target) as engine,
    ):
        began = time.monotonic()
        for first in range(0, 80, 16):
            engine.store(range(first, first + 16), range(16))
        lasted_s = time.monotonic() - began
        found = daemon.metrics()
    assert found["kvstow_evicted_blocks_total capacity"] == 16
    assert found["kvstow_evicted_blocks_total reclaimed"] == 0
    assert found["kvstow_model_evicted_blocks_total model "] == 16
    assert found["kvstow_eviction_age_seconds_count"] == 16
    assert found["kvstow_eviction_age_seconds_bucket +Inf"] == 16
    assert 0 < found["kvstow_eviction_age_seconds_sum"] < 16 * lasted_s


def test_lookups_are_counted_by_their_size(daemon: Kvstowd, risen: Risen) -> None:
    with connected_engine(daemon.target) as engine:
        for count in (1, 3, 3):
            engine.lookup(range(count))
        found = risen()
    assert found["kvstow_lookup_keys_sum"] == 7
    assert found["kvstow_lookup_keys_count"] == 3
    assert found["kvstow_lookup_keys_bucket 1.0"] == 1
    assert found["kvstow_lookup_keys_bucket 4.0"] == 3


def test_a_store_that_came_to_nothing_is_counted(daemon: Kvstowd, risen: Risen) -> None:
    with connected_engine(daemon.target) as engine:
        with daemon.held_stores():
            held = engine.begin_store([1, 2], [0, 1])
            engine.session.reset()
        assert held.wait(DEADLINE_S)
        found = risen()
    assert found["kvstow_unstored_blocks_total model abandoned "] == 2
    assert found["kvstow_unstored_blocks_total model failed "] == 0


def test_what_a_reader_that_stopped_has_not_heard_is_counted(directory: Path) -> None:
    lost, resyncs = "kvstow_events_lost_total", "kvstow_resyncs_total"
    with (
        running_kvstowd(directory, max_events=4) as daemon,
        engine_to_kill(daemon.target) as engine,
        Client(daemon.target, PATIENT) as client,
    ):
        (space,) = client.administration.spaces()
        os.kill(engine.pid, signal.SIGSTOP)
        before = found = daemon.metrics()
        while not found[lost]:
            client.administration.reset_space(space.space_id)
            found = daemon.metrics()
    assert before[lost] == before[resyncs] == 0
    assert 1 <= found[resyncs] <= found[lost]
    assert found["kvstow_stream_lag_events"] >= 4 + found[resyncs]


def test_methods_that_there_are_not_make_no_series(daemon: Kvstowd) -> None:
    def series() -> set[str]:
        """Without the stream of an engine that has just left, which may still be about to end."""
        return {name for name in daemon.metrics() if " Watch" not in name}

    before = series()
    with grpc.insecure_channel(daemon.target) as channel:
        for number in range(3):
            for service in ("kvstow.v1.CacheService", "any"):
                call: Any = channel.unary_unary(f"/{service}/Any{number}")
                with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                    call(b"", timeout=DEADLINE_S)
    assert series() == before


def test_refusals_exist_before_they_happen_and_are_counted_by_reason(
    daemon: Kvstowd, risen: Risen
) -> None:
    with connected_engine(daemon.target) as engine:
        before = risen()
        with pytest.raises(Refused, match="DUPLICATE_KEY"):
            engine.session.store(keys([1, 1]), [0, 1], engine.session.generation)
        after = risen()
    assert before["kvstow_refusals_total DUPLICATE_KEY"] == 0
    assert after["kvstow_refusals_total DUPLICATE_KEY"] == 1
    assert after["kvstow_refusals_total STALE_GENERATION"] == 0


def test_callers_that_are_turned_away_are_counted_from_zero(directory: Path) -> None:
    tokens = directory / "tokens"
    tokens.write_text(f'[[token]]\nname = "a"\nrole = "read-only"\nsha256 = "{"0" * 64}"\n')
    tokens.chmod(0o600)
    series = "kvstow_callers_refused_total"
    with (
        running_kvstowd(directory, tokens=tokens) as daemon,
        Client(daemon.target, PATIENT) as client,
    ):
        before = daemon.metrics()
        with pytest.raises(Refused, match="UNAUTHENTICATED"):
            client.server_info()
        after = daemon.metrics()
    assert before[f"{series} UNAUTHENTICATED"] == before[f"{series} PERMISSION_DENIED"] == 0
    assert after[f"{series} UNAUTHENTICATED"] == 1
    assert after[f"{series} PERMISSION_DENIED"] == 0
