"""The debug service holds, fails and delays chosen copies of a running daemon."""

import math
from typing import Any

import grpc
import pytest

from kvstow.v1 import admin_pb2, cache_pb2, debug_pb2, transfer_pb2
from rpc.rig import Engine, Served, config, refused, served
from support.waiting import wait_for

STORE, LOAD = transfer_pb2.TRANSFER_KIND_STORE, transfer_pb2.TRANSFER_KIND_LOAD
DONE, FAILED = transfer_pb2.TRANSFER_STATE_DONE, transfer_pb2.TRANSFER_STATE_FAILED
RUNNING = transfer_pb2.TRANSFER_STATE_RUNNING
ABANDONED = transfer_pb2.TRANSFER_STATE_ABANDONED


def add(daemon: Served, **fault: Any) -> int:
    request = debug_pb2.AddFaultRequest(fault=debug_pb2.Fault(**fault))
    number: int = daemon.debug.AddFault(request).fault_id
    return number


def release(daemon: Served, number: int) -> bool:
    reply = daemon.debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))
    return bool(reply.released)


def held(daemon: Served) -> dict[int, int]:
    faults = daemon.debug.ListFaults(debug_pb2.ListFaultsRequest()).faults
    return {fault.fault_id: fault.held_count for fault in faults}


def transfers(daemon: Served) -> list[admin_pb2.Transfer]:
    return list(daemon.admin.ListTransfers(admin_pb2.ListTransfersRequest()).transfers)


def unfinished_ranks(daemon: Served) -> list[int]:
    (transfer,) = transfers(daemon)
    return list(transfer.unfinished_ranks)


def test_a_held_store_runs_until_its_fault_is_released() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        fault = add(daemon, hold=debug_pb2.HoldCopy())
        daemon.cache.Store(engine.store_request(1, [1, 2]))
        wait_for(lambda: held(daemon) == {fault: 1}, "the held copy")
        (transfer,) = transfers(daemon)
        assert (transfer.state, transfer.kind, transfer.block_count) == (RUNNING, STORE, 2)
        assert (transfer.session_id, transfer.transfer_id) == (engine.session_id, 1)
        pending = daemon.cache.Lookup(engine.lookup_request([1, 2, 3])).groups[0]
        assert (pending.hit_count, pending.pending_count) == (0, 2)

        assert release(daemon, fault)
        assert engine.report().state == DONE
        assert held(daemon) == {}
        assert not release(daemon, fault)


def test_a_held_store_stays_held_when_it_is_abandoned() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        fault = add(daemon, hold=debug_pb2.HoldCopy())
        daemon.cache.Store(engine.store_request(1, [1]))
        wait_for(lambda: held(daemon) == {fault: 1}, "the held copy")
        request = cache_pb2.ResetRequest(session_id=engine.session_id)
        reset = daemon.cache.Reset(request).result
        assert (reset.abandoned_stores, reset.drained) == (1, False)
        assert [found.abandoned for found in transfers(daemon)] == [True]
        stats = daemon.admin.GetStats(admin_pb2.GetStatsRequest())
        assert [slots.quarantined_count for slots in stats.slots] == [1]

        release(daemon, fault)
        assert engine.report().state == ABANDONED


def test_a_stuck_transfer_is_listed_with_its_engine_and_the_ranks_that_lack() -> None:
    with served(config(session_grace_s=3600)) as daemon:
        engine = Engine(daemon, world_size=2)
        engine.watch()
        fault = add(daemon, rank=1, hold=debug_pb2.HoldCopy(), count=1)
        daemon.cache.Store(engine.store_request(1, [1], deadline_s=0.001))
        daemon.cache.Store(engine.store_request(2, [2]))
        overdue = admin_pb2.ListTransfersRequest(overdue_only=True)
        wait_for(lambda: daemon.admin.ListTransfers(overdue).total_count == 1, "the deadline")
        wait_for(lambda: len(transfers(daemon)) == 1, "the end of the other transfer")
        wait_for(lambda: unfinished_ranks(daemon) == [1], "the end of the copy of the other rank")
        (stuck,) = daemon.admin.ListTransfers(overdue).transfers
        assert (stuck.transfer_id, stuck.overdue, stuck.session_name) == (1, True, "engine")

        daemon.cache.CloseSession(cache_pb2.CloseSessionRequest(session_id=engine.session_id))
        (orphan,) = daemon.admin.ListTransfers(overdue).transfers
        assert (orphan.session_id, orphan.session_name) == (engine.session_id, "")
        release(daemon, fault)
        wait_for(lambda: not transfers(daemon), "the end of the copy")
        assert daemon.admin.ListTransfers(overdue).total_count == 0


def test_failed_blocks_are_named_with_rank_and_reason() -> None:
    with served() as daemon:
        engine = Engine(daemon, world_size=2)
        engine.watch()
        broken = debug_pb2.FailBlocks(blocks=[1, 2], reason="broken")
        add(daemon, rank=1, fail=broken, count=1)
        report = engine.store(1, [1, 2, 3, 4])
        assert report.state == FAILED
        (failures,) = report.failures
        assert (failures.rank, failures.reason) == (1, "broken")
        assert list(failures.positions) == [1, 2]
        states = daemon.cache.Lookup(engine.lookup_request([1, 2, 3, 4], want_states=True))
        assert states.groups[0].states == "R..R"
        assert engine.store(2, [2, 3]).state == DONE


def test_a_fault_without_blocks_fails_them_all() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        add(daemon, fail=debug_pb2.FailBlocks())
        (failures,) = engine.store(1, [1, 2]).failures
        assert (failures.reason, list(failures.positions)) == ("injected fault", [0, 1])


@pytest.mark.parametrize(
    "elsewhere", [{"session_id": 999}, {"transfer_id": 2}, {"rank": 1}, {"kind": LOAD}]
)
def test_a_fault_meets_only_what_it_names(elsewhere: dict[str, int]) -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        add(daemon, fail=debug_pb2.FailBlocks(), **elsewhere)
        assert engine.store(1, [1]).state == DONE


def test_a_delayed_copy_ends_by_itself() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        add(daemon, delay=debug_pb2.DelayCopy(delay_s=0.01), count=1)
        assert engine.store(1, [1]).state == DONE


@pytest.mark.parametrize(
    "fault",
    [
        debug_pb2.Fault(),
        debug_pb2.Fault(hold=debug_pb2.HoldCopy(), kind=99),  # type: ignore[arg-type]
        debug_pb2.Fault(delay=debug_pb2.DelayCopy(delay_s=3601)),
        debug_pb2.Fault(delay=debug_pb2.DelayCopy(delay_s=math.nan)),
        debug_pb2.Fault(fail=debug_pb2.FailBlocks(reason="x" * 1025)),
    ],
)
def test_a_malformed_fault_is_refused(fault: debug_pb2.Fault) -> None:
    with served() as daemon:
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.debug.AddFault(debug_pb2.AddFaultRequest(fault=fault))
        assert refused(refusal.value)[:2] == ("INVALID_ARGUMENT", "INVALID_REQUEST")
        assert held(daemon) == {}
