"""The daemon's own life: it takes no work too early or too late, and leaves in order."""

import threading

import pytest

from kvstow.server.core.errors import NotStarted, ShuttingDown
from kvstow.server.core.events import Draining
from kvstow.server.core.requests import ServerState, StreamEnd
from kvstow.server.core.types import TransferState
from support.daemons import Rig, running_daemon
from support.engine import Engine, identity, keys
from support.machines import Machine
from support.waiting import wait_for


def test_nothing_is_taken_before_the_pool_is_there(machine: Machine) -> None:
    with running_daemon(machine=machine, ready=False) as rig:
        assert rig.daemon.info().state is ServerState.STARTING
        with pytest.raises(NotStarted):
            rig.daemon.open_session(identity(), "early", None)
        with pytest.raises(NotStarted):
            rig.daemon.reset_all(0)
        rig.daemon.set_ready()
        assert rig.daemon.info().state is ServerState.READY
        Engine(rig.daemon, rig.place).store(keys(1), [0])


def test_what_clients_are_told_of_the_daemon(rig: Rig) -> None:
    info = rig.daemon.info()
    assert info.boot_id == rig.daemon.boot_id
    assert info.limits.pool_bytes == 8 * 1024
    assert info.limits.extent_bytes == 1024
    assert info.limits.max_lease_ttl_s == 300
    assert (info.policy, info.copy_kernel) == ("lru", "test")
    rig.clock.advance(7)
    assert rig.daemon.info().uptime_s == info.uptime_s + 7


def test_draining_refuses_new_work_and_lets_running_copies_end(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    held = engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(rig.daemon.drain(3600)))
    draining.start()
    wait_for(lambda: Draining() in engine.events(), "the news of the drain")
    for attempt in (
        lambda: engine.begin_store(keys(3), [2]),
        lambda: engine.begin_load(keys(1), [2]),
        lambda: engine.hits(keys(1)),
        lambda: Engine(rig.daemon, rig.place),
    ):
        with pytest.raises(ShuttingDown):
            attempt()
    rig.daemon.check()
    assert engine.stream.end is None
    assert not drained

    let_go()
    draining.join(60)
    assert drained == [True]
    assert engine.ended(held.transfer).state is TransferState.DONE  # read after the end
    assert engine.stream.next(0) is None
    assert engine.stream.end is StreamEnd.SHUTDOWN


def test_streams_are_read_to_their_end_before_sessions_are_closed(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    stored = engine.begin_store(keys(1), [0])
    ended: list[StreamEnd | None] = []

    def end() -> None:
        rig.daemon.drain(3600, 3600)
        ended.append(engine.stream.end)
        rig.daemon.close()

    ending = threading.Thread(target=end)
    ending.start()
    wait_for(lambda: engine.stream.end, "the end of the stream")
    ending.join(0.1)  # what it does without waiting for the reader, it does now
    assert not ended
    assert engine.ended(stored.transfer).state is TransferState.DONE
    engine.stream.close()
    ending.join(60)
    assert ended == [StreamEnd.SHUTDOWN]


def test_a_reader_that_does_not_go_is_not_waited_for_longer_than_said(rig: Rig) -> None:
    Engine(rig.daemon, rig.place)
    assert rig.daemon.drain(3600, 0.05)


def test_a_drain_ends_with_its_grace_time_and_what_is_held_ends_as_failed(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    rig.hold(count=1)
    engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    assert not rig.daemon.drain(0.05)
    rig.daemon.check()
    rig.daemon.close()
    rig.daemon.check()
    assert not rig.daemon.snapshot().transfers
    assert engine.stream.next(60) is None


def test_calls_that_wait_do_not_outlast_the_drain(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    rig.hold(count=1)
    engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    left: list[int] = []
    waiting = threading.Thread(
        target=lambda: left.append(rig.daemon.reset(engine.session, 3600).abandoned_stores)
    )
    waiting.start()
    wait_for(lambda: rig.daemon.snapshot().spaces[0].generation == 2, "the reset")
    rig.daemon.drain(0.05)
    waiting.join(60)
    assert left == [1]


def test_closing_is_possible_at_any_time_and_twice(machine: Machine) -> None:
    with running_daemon(machine=machine, ready=False) as rig:
        rig.daemon.close()
