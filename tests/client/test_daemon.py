"""The client with a real daemon: real bytes, real refusals, real ends of transfers."""

import pytest

from client.faults import STORE, fail_next, held
from client.spaces import BLOCK_BYTES, identity
from kvstow.client import (
    Client,
    EngineMemory,
    Group,
    GroupMemory,
    Hold,
    Refused,
    Segment,
    TransferState,
)
from support.client_engine import PATIENT, ClientEngine, connected_engine, keys
from support.kvstowd import Kvstowd
from support.waiting import DEADLINE_S, wait_for


def test_what_one_engine_stored_another_loads(daemon: Kvstowd, engine: ClientEngine) -> None:
    engine.store([1, 2, 3], [0, 1, 2])
    with connected_engine(daemon.target) as other:
        other.load([1, 2, 3], [7, 5, 9])
    with Client(daemon.target, PATIENT) as client:
        client.administration.check_ledger()
        (space,) = client.administration.spaces()
        assert (space.counters.stored_count, space.counters.loaded_count) == (3, 3)


def test_two_groups_with_real_bytes(daemon: Kvstowd) -> None:
    two = identity(1, Group(segment_bytes=[64, 128]))
    groups = [
        GroupMemory(block_count=4, segments=[Segment(stride_bytes=BLOCK_BYTES)]),
        GroupMemory(
            block_count=2,
            segments=[
                Segment(offset_bytes=1024, stride_bytes=64),
                Segment(offset_bytes=2048, stride_bytes=128),
            ],
        ),
    ]
    with (
        Client(daemon.target, PATIENT) as client,
        EngineMemory(4096) as memory,
        client.open(two, "two groups") as session,
    ):
        session.attach(0, [memory.region()], groups)
        memory.buffer[:BLOCK_BYTES] = b"\x01" * BLOCK_BYTES
        memory.buffer[1024 : 1024 + 64] = b"\x02" * 64
        memory.buffer[2048 : 2048 + 128] = b"\x03" * 128
        names = {0: [b"key1"], 1: [b"key2"]}
        assert session.store(names, {0: [0], 1: [0]}, session.generation).wait(DEADLINE_S)
        hits = session.lookup(
            "request", names, hold=Hold.READY, want_states=True, budget_s=DEADLINE_S
        )
        assert {group: found.states for group, found in hits.groups.items()} == {0: "R", 1: "R"}
        assert session.load(names, {0: [3], 1: [1]}, hits).wait(DEADLINE_S)
        assert memory.buffer[3 * BLOCK_BYTES : 4 * BLOCK_BYTES] == b"\x01" * BLOCK_BYTES
        assert memory.buffer[1024 + 64 : 1024 + 128] == b"\x02" * 64
        assert memory.buffer[2048 + 128 : 2048 + 256] == b"\x03" * 128


def test_a_held_store_is_pending_and_a_reset_abandons_it(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    with held(daemon, STORE) as wait_held:
        transfer = engine.begin_store([1, 2], [0, 1])
        wait_held()
        assert engine.lookup([1, 2]).pending_count == 2
        result = engine.session.reset()
        assert (result.abandoned_stores, result.drained) == (1, False)
        assert engine.lookup([1, 2]).pending_count == 0
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.ABANDONED


def test_another_engine_s_reset_is_heard_and_old_kv_is_refused(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    old = engine.session.generation
    engine.store([1], [0])
    with connected_engine(daemon.target) as other:
        assert other.session.reset().dropped_count == 1
    wait_for(lambda: engine.session.generation.number > old.number, "the news of the reset")
    assert engine.lookup([1]).count == 0
    with pytest.raises(Refused, match="STALE_GENERATION"):
        engine.session.store(keys([1]), [0], old)
    engine.store([1], [0])


def test_a_block_that_cannot_be_copied_is_named(daemon: Kvstowd, engine: ClientEngine) -> None:
    fail_next(daemon, STORE, 1, "bad cable")
    transfer = engine.begin_store([1, 2, 3], [0, 1, 2])
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.FAILED
    assert transfer.failed_positions == {1}
    assert [(failure.rank, failure.reason) for failure in transfer.failures] == [(0, "bad cable")]
    assert engine.lookup([1, 2, 3]).count == 1


def test_a_cancelled_transfer_ends_abandoned(daemon: Kvstowd, engine: ClientEngine) -> None:
    with held(daemon, STORE) as wait_held:
        transfer = engine.begin_store([1], [0])
        wait_held()
        engine.session.cancel(transfer)
        with Client(daemon.target, PATIENT) as client:
            administration = client.administration
            wait_for(
                lambda: administration.transfers().transfers[0].abandoned, "the cancel to arrive"
            )
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.ABANDONED


def test_a_load_of_what_is_not_stored_is_refused(engine: ClientEngine) -> None:
    engine.store([1], [0])
    hits = engine.lookup([1, 2])
    with pytest.raises(Refused, match="KEY_NOT_READY") as refused:
        engine.session.load(keys([1, 2]), [3, 4], hits)
    assert refused.value.facts["index"] == "1"
    assert refused.value.next_step


def test_detached_memory_is_not_touched_any_more(daemon: Kvstowd, engine: ClientEngine) -> None:
    with held(daemon, STORE) as wait_held:
        transfer = engine.begin_store([1], [0])
        wait_held()
        assert not engine.session.detach(0)
    assert engine.session.detach(0, DEADLINE_S)
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.ABANDONED
    assert engine.session.detach(0)


def test_closing_waits_for_what_runs(daemon: Kvstowd) -> None:
    with connected_engine(daemon.target) as engine:
        transfer = engine.begin_store([1, 2], [0, 1])
        assert engine.session.close(DEADLINE_S)
        assert transfer.state is TransferState.DONE
