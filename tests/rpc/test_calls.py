"""Calls as an engine makes them, over a real socket: streams, waits, threads, bytes."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
import pytest

from kvstow.v1 import admin_pb2, cache_pb2, cache_pb2_grpc, debug_pb2, transfer_pb2
from rpc.rig import PATIENCE_S, Engine, Served, config, metadata, refused, served
from support.processes import running_process
from support.waiting import wait_for

DONE = transfer_pb2.TRANSFER_STATE_DONE


def test_a_stream_says_which_process_it_is_in_every_message() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        stream = daemon.cache.Watch(cache_pb2.WatchRequest(session_id=engine.session_id))
        first = next(stream)
        assert (first.boot_id, list(first.events)) == (daemon.daemon.boot_id, [])
        daemon.cache.CloseSession(cache_pb2.CloseSessionRequest(session_id=engine.session_id))
        assert list(stream) == []
        assert stream.code() is grpc.StatusCode.OK
        assert metadata(stream)["kvstow-boot-id"] == daemon.daemon.boot_id


def streaming(daemon: Served) -> list[bool]:
    sessions = daemon.admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions
    return [session.streaming for session in sessions]


def test_the_daemon_sees_a_stream_go() -> None:
    with served() as daemon:
        stream = Engine(daemon).watch()
        assert streaming(daemon) == [True]
        stream.cancel()
        wait_for(lambda: streaming(daemon) == [False], "the end of the stream")


def test_the_daemon_sees_a_client_go() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
            stub = cache_pb2_grpc.CacheServiceStub(channel)
            stream = stub.Watch(cache_pb2.WatchRequest(session_id=engine.session_id))
            next(stream)
            assert streaming(daemon) == [True]
        wait_for(lambda: streaming(daemon) == [False], "the end of the stream")


FROZEN = """
import sys
import grpc
from kvstow.v1 import cache_pb2, cache_pb2_grpc
channel = grpc.insecure_channel(sys.argv[1])
stub = cache_pb2_grpc.CacheServiceStub(channel)
stream = stub.Watch(cache_pb2.WatchRequest(session_id=int(sys.argv[2])))
next(stream)
print("watching", flush=True)
list(stream)
"""


def test_the_daemon_sees_a_client_stop() -> None:
    """It neither answers nor closes: only pings tell."""
    with served() as daemon:
        target, session_id = f"unix:{daemon.socket}", str(Engine(daemon).session_id)
        command = [sys.executable, "-c", FROZEN, target, session_id]
        with running_process(command) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "watching\n"
            client.send_signal(signal.SIGSTOP)
            assert streaming(daemon) == [True]
            wait_for(lambda: streaming(daemon) == [False], "the end of the stream")


def test_events_come_without_other_traffic_and_resume_where_the_reader_was() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        first = engine.watch()
        daemon.cache.Store(engine.store_request(1, [1]))
        event = engine.reports.get(timeout=PATIENCE_S)
        assert (event.sequence, event.transfer_ended.transfer_id) == (1, 1)
        first.cancel()
        daemon.cache.Store(engine.store_request(2, [2]))

        again = daemon.cache.Watch(cache_pb2.WatchRequest(session_id=engine.session_id, after=1))
        seen: list[cache_pb2.Event] = []
        while not seen:
            seen.extend(next(again).events)
        assert [(event.sequence, event.transfer_ended.transfer_id) for event in seen] == [(2, 2)]
        again.cancel()


def test_a_stream_that_nobody_reads_keeps_every_report_and_nobody_else_waiting() -> None:
    """More than fits into the connection waits in the daemon, which takes no more than it may keep."""
    limit = 300
    with served(config(max_transfers=limit)) as daemon:
        engine = Engine(daemon)
        stream = daemon.cache.Watch(cache_pb2.WatchRequest(session_id=engine.session_id))
        next(stream)
        long_report = debug_pb2.Fault(fail=debug_pb2.FailBlocks(reason="x" * 1000))
        daemon.debug.AddFault(debug_pb2.AddFaultRequest(fault=long_report))
        for number in range(1, limit + 1):
            request = engine.store_request(number, [number])
            wait_for(partial(accepted, daemon, request), "a store that is accepted")
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache.Store(engine.store_request(limit + 1, [limit + 1]))
        assert refused(refusal.value)[1] == "TOO_MANY_TRANSFERS"

        seen: list[cache_pb2.Event] = []
        while len(seen) < limit:
            seen.extend(next(stream).events)
        assert [event.sequence for event in seen] == list(range(1, limit + 1))
        ended = [event.transfer_ended.transfer_id for event in seen]
        assert sorted(ended) == list(range(1, limit + 1))
        daemon.cache.Acknowledge(
            cache_pb2.AcknowledgeRequest(session_id=engine.session_id, sequence=limit)
        )
        assert accepted(daemon, engine.store_request(limit + 1, [limit + 1]))
        stream.cancel()


def accepted(daemon: Served, request: cache_pb2.StoreRequest) -> bool:
    return bool(daemon.cache.Store(request).accepted_count)


def test_streams_leave_threads_for_the_others() -> None:
    with served(config(max_sessions=8), worker_count=2) as daemon:
        streams = [Engine(daemon, attached=False).watch() for _ in range(8)]
        assert len(daemon.admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions) == 8
        for stream in streams:
            stream.cancel()


def test_a_lease_outlives_its_lookup_and_is_released_once() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        engine.store(1, [1])
        request = engine.lookup_request([1], hold=cache_pb2.HOLD_PREFIX, request="r")
        lease = daemon.cache.Lookup(request)
        assert lease.lease_ttl_s == daemon.daemon.info().limits.max_lease_ttl_s
        release = cache_pb2.ReleaseRequest(
            session_id=engine.session_id, lease_ids=[lease.lease_id, 999]
        )
        assert [daemon.cache.Release(release).released_count for _ in range(2)] == [1, 0]


def test_a_load_takes_its_lease_over_and_lets_go_of_what_it_does_not_use() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        engine.store(1, [1, 2, 3])
        request = engine.lookup_request([1, 2, 3], hold=cache_pb2.HOLD_PREFIX, request="r")
        lease_id = daemon.cache.Lookup(request).lease_id
        assert held_blocks(daemon) == 3
        hold = debug_pb2.Fault(hold=debug_pb2.HoldCopy())
        fault_id = daemon.debug.AddFault(debug_pb2.AddFaultRequest(fault=hold)).fault_id
        daemon.cache.Load(engine.load_request(2, [1], lease_id=lease_id))
        assert held_blocks(daemon) == 1
        assert not daemon.admin.ListLeases(admin_pb2.ListLeasesRequest()).leases
        daemon.debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=fault_id))
        assert engine.report().state == DONE
        assert held_blocks(daemon) == 0


def held_blocks(daemon: Served) -> int:
    """How many blocks are held, in books that are in order."""
    daemon.books()
    (slots,) = daemon.admin.GetStats(admin_pb2.GetStatsRequest()).slots
    return int(slots.held_count)


def test_bytes_come_back_through_the_socket() -> None:
    with served() as daemon:
        writer = Engine(daemon)
        writer.watch()
        content = bytes(range(256)) * 8
        writer.files[0].write_bytes(content)
        assert writer.store(1, [1, 2, 3]).state == DONE
        reader = Engine(daemon)
        reader.watch()
        daemon.cache.Load(reader.load_request(1, [3, 2, 1]))
        assert reader.report().state == DONE
        loaded = reader.files[0].read_bytes()
        assert [loaded[256 * at : 256 * (at + 1)] for at in range(3)] == [
            content[256 * at : 256 * (at + 1)] for at in (2, 1, 0)
        ]


def hold_a_store(daemon: Served, engine: Engine) -> int:
    """A store whose copy is held; returns the fault that holds it."""
    fault = debug_pb2.Fault(hold=debug_pb2.HoldCopy())
    number: int = daemon.debug.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id
    daemon.cache.Store(engine.store_request(1, [1]))
    wait_for(lambda: held_count(daemon, number) == 1, "the held copy")
    return number


def held_count(daemon: Served, number: int) -> int:
    faults = daemon.debug.ListFaults(debug_pb2.ListFaultsRequest()).faults
    return sum(fault.held_count for fault in faults if fault.fault_id == number)


def test_calls_that_wait_leave_threads_for_the_others() -> None:
    with served(worker_count=4) as daemon:
        engine = Engine(daemon)
        fault_id = hold_a_store(daemon, engine)
        request = cache_pb2.ResetRequest(session_id=engine.session_id, wait_s=PATIENCE_S)
        waiting = [daemon.cache.Reset.future(request) for _ in range(2)]
        wait_for(lambda: reset_count(daemon) == 2, "both resets")

        at_once = [daemon.cache.Reset(request) for _ in range(8)]
        assert {(reply.result.abandoned_stores, reply.result.drained) for reply in at_once} == {
            (1, False)
        }
        assert not any(call.done() for call in waiting)

        daemon.debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=fault_id))
        assert all(call.result(PATIENCE_S).result.drained for call in waiting)


def reset_count(daemon: Served) -> int:
    spaces = daemon.admin.ListSpaces(admin_pb2.ListSpacesRequest()).spaces
    return sum(space.counters.resets for space in spaces)


def test_many_threads_are_answered() -> None:
    with served() as daemon:
        engine = Engine(daemon)
        engine.watch()
        engine.store(1, [1, 2, 3])

        def look_up(_: int) -> int:
            reply = daemon.cache.Lookup(engine.lookup_request([1, 2, 3, 4]))
            return int(reply.groups[0].hit_count)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(look_up, range(400))) == [3] * 400
