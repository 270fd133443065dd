"""A real daemon that is stopped, killed, drained or restarted, and the engine that goes on."""

import signal
from pathlib import Path
from socket import AF_UNIX
from socket import socket as UnixSocket

import grpc
import pytest

from client.faults import LOAD, STORE, held, stopped
from client.spaces import SHORT_S, identity
from kvstow.client import (
    Client,
    Refused,
    SessionState,
    TransferState,
    Unreachable,
)
from kvstow.client.breaker import THRESHOLD
from kvstow.v1 import cache_pb2, cache_pb2_grpc
from support.client_engine import PATIENT, ClientEngine, connected_engine, keys
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import DEADLINE_S, wait_for


def leases(daemon: Kvstowd) -> int:
    with Client(daemon.target, PATIENT) as client:
        return client.administration.leases().total_count


@pytest.mark.parametrize("left_behind", [False, True])
def test_who_finds_nobody_at_a_socket_is_told_to_start_the_daemon(
    socket: Path, left_behind: bool
) -> None:
    with Client(f"unix:{socket}", PATIENT) as client, UnixSocket(AF_UNIX) as dead:
        if left_behind:
            dead.bind(str(socket))
        with pytest.raises(Unreachable) as raised:
            client.open(identity(), "engine")
    assert str(raised.value) == f"no daemon listens at unix:{socket}; start kvstowd"


def test_a_daemon_that_is_stopped_is_a_miss_and_leaks_nothing(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    engine.store([1, 2], [0, 1])
    session = engine.session
    with stopped(daemon.process):
        reasons = [
            session.lookup(str(number), keys([1, 2]), budget_s=SHORT_S).missed_because
            for number in range(20)
        ]
        assert reasons[:THRESHOLD] == ["timed out"] * THRESHOLD
        assert set(reasons[THRESHOLD:]) == {"not answering"}
        late = session.store(keys([3]), [3], session.generation)
        assert late.reason == "not answering"
    wait_for(lambda: session.lookup("again", keys([1, 2])).count == 2, "hits again")
    session.release("again")
    wait_for(lambda: leases(daemon) == 0, "the leases of late answers to be released")
    assert session.counters().reopened == 0


def test_a_daemon_that_is_stopped_for_long_is_away_and_the_session_goes_on_when_it_does(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    """It neither answers nor closes: only pings tell, also an engine that asks nothing."""
    engine.store([1, 2], [0, 1])
    before = engine.session.ticket
    with stopped(daemon.process):
        wait_for(lambda: engine.session.state is SessionState.AWAY, "the lost stream")
        assert engine.lookup([1, 2]).missed_because == "away"
    engine.wait_open()
    assert engine.session.ticket == before
    engine.load([1, 2], [3, 4])


def test_a_store_sent_to_a_stopped_daemon_is_done_when_it_goes_on(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    with stopped(daemon.process):
        session = engine.session
        transfer = session.store(keys([1, 2]), [0, 1], session.generation, budget_s=SHORT_S)
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert (transfer.state, transfer.statuses) == (TransferState.DONE, "AA")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_restart_the_engine_goes_on_by_itself(socket: Path, how: signal.Signals) -> None:
    with running_kvstowd(socket.parent) as first, connected_engine(first.target) as engine:
        engine.store([1, 2], [0, 1])
        old = engine.session.generation
        first.process.send_signal(how)
        first.wait_exit()
        wait_for(lambda: engine.session.ticket is None, "the loss of the session")
        assert engine.lookup([1, 2]).missed_because == "away"
        with running_kvstowd(socket.parent):
            wait_for(lambda: engine.session.state is SessionState.OPEN, "another session")
            with pytest.raises(Refused, match="STALE_GENERATION"):
                engine.session.store(keys([1]), [0], old)
            assert engine.lookup([1, 2]).count == 0
            engine.store([1, 2], [0, 1])
            engine.load([1, 2], [3, 4])


def test_a_load_under_way_when_the_daemon_is_killed_is_lost(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    engine.store([1], [0])
    with held(daemon, LOAD) as wait_held:
        load = engine.session.load(keys([1]), [5], engine.lookup([1]))
        wait_held()
        daemon.kill()
        assert load.wait(DEADLINE_S)
    assert load.state is TransferState.LOST


def test_a_daemon_that_drains_reports_what_runs_and_takes_no_more(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    with held(daemon, STORE) as wait_held:
        transfer = engine.begin_store([1], [0])
        wait_held()
        daemon.terminate()
        wait_for(lambda: engine.session.state is SessionState.DRAINING, "the news")
        assert engine.lookup([1]).missed_because == "draining"
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.DONE


def test_a_session_lost_while_its_copy_runs_gives_no_block_back_early(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    with held(daemon, STORE) as wait_held:
        transfer = engine.begin_store([1, 2], [0, 1])
        wait_held()
        assert engine.session.ticket is not None
        with grpc.insecure_channel(daemon.target) as channel:
            request = cache_pb2.CloseSessionRequest(session_id=engine.session.ticket.session_id)
            cache_pb2_grpc.CacheServiceStub(channel).CloseSession(request)
        wait_for(lambda: engine.session.ticket is None, "the loss of the session")
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.LOST
    engine.wait_open()
    engine.store([1, 2], [0, 1])


def test_a_stream_that_someone_else_takes_over_costs_the_session_once(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    """The taker gets the reports of the old session; what ran in it is lost, once its copy ended."""
    first = engine.session.ticket
    assert first is not None
    ended: list[TransferState] = []
    with held(daemon, STORE) as wait_held, grpc.insecure_channel(daemon.target) as channel:
        transfer = engine.begin_store([1, 2], [0, 1])
        wait_held()
        transfer.add_done_callback(lambda transfer: ended.append(transfer.state))
        stub = cache_pb2_grpc.CacheServiceStub(channel)
        taker = stub.Watch(cache_pb2.WatchRequest(session_id=first.session_id))
        wait_for(lambda: engine.session.ticket is None, "the loss of the session")
        assert engine.lookup([1]).missed_because == "away"
        assert not ended
    engine.wait_open()
    assert engine.session.ticket != first
    assert ended == [TransferState.LOST]
    assert engine.session.counters().reopened == 1
    taker.cancel()
