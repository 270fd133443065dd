"""SIGTERM drains; a second one does not wait."""

import signal
import sys
from pathlib import Path

import pytest

from e2e.copies import runs
from kvstow.client import Client, Refused, TransferState
from support.client_engine import IDENTITY, PATIENT, connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import wait_for


def test_an_idle_daemon_ends_at_once_and_leaves_no_socket(daemon: Kvstowd) -> None:
    daemon.terminate()
    assert daemon.wait_exit() == 0
    assert not daemon.socket.exists()
    assert daemon.wait_line("drained: every copy has ended")


def test_interrupting_it_drains_as_well(daemon: Kvstowd) -> None:
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.wait_exit() == 0


def test_draining_refuses_new_work_and_ends_with_the_last_copy(daemon: Kvstowd) -> None:
    with connected_engine(daemon.target) as engine:
        with daemon.held_stores(), Client(daemon.target, PATIENT) as client:
            held = engine.begin_store([1, 2], [0, 1])
            wait_for(lambda: runs(client), "the held copy")
            daemon.terminate()
            daemon.wait_line("draining; a second signal ends the process at once")
            wait_for(lambda: not daemon.serving(), "the end of readiness")
            with pytest.raises(Refused) as refused:
                client.open(IDENTITY, "late")
            assert refused.value.reason == "DRAINING"
            assert engine.lookup([1, 2]).groups[0].hit_count == 0
            assert not held.done()
            assert daemon.process.poll() is None
        assert held.wait(60)
        assert held.state is TransferState.DONE
    assert daemon.wait_exit() == 0


def test_a_copy_that_does_not_end_delays_the_exit_by_the_grace_time(directory: Path) -> None:
    settings = {"debug_service": True, "drain_grace_s": 0.2}
    with (
        running_kvstowd(directory, **settings) as daemon,
        connected_engine(daemon.target) as engine,
    ):
        with Client(daemon.target, PATIENT) as client, daemon.held_stores():
            held = engine.begin_store([1, 2], [0, 1])
            wait_for(lambda: runs(client), "the held copy")
            daemon.terminate()
            assert daemon.wait_exit() == 0
        assert held.wait(60)
        assert held.state is TransferState.LOST


SLOW_TO_CLOSE = """
import pathlib, sys, time
from kvstow.server.__main__ import main
from kvstow.server.device.host import HostDevice

gate = pathlib.Path(sys.argv.pop(1))
close = HostDevice.close

def close_late(device):
    sys.stderr.write("closing\\n")
    while not gate.exists():
        time.sleep(0.01)
    close(device)

HostDevice.close = close_late
sys.exit(main())
"""
"""A daemon whose last copies take until a file is there."""


def test_blocks_are_not_given_back_while_a_copy_outlives_the_grace_time(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = directory / "gate"
    monkeypatch.setattr("support.kvstowd.COMMAND", (sys.executable, "-c", SLOW_TO_CLOSE, gate))
    settings = {"debug_service": True, "drain_grace_s": 0.2}
    with (
        running_kvstowd(directory, **settings) as daemon,
        connected_engine(daemon.target) as engine,
        daemon.held_stores(),
        Client(daemon.target, PATIENT) as client,
    ):
        held = engine.begin_store([1, 2], [0, 1])
        wait_for(lambda: runs(client), "the held copy")
        daemon.terminate()
        wait_for(lambda: "closing\n" in daemon.output, "the end of the grace time")
        wait_for(lambda: engine.session.ticket is None, "the loss of the session")
        assert client.administration.transfers().total_count == 1
        assert not held.done()
        gate.touch()
        assert daemon.wait_exit() == 0
        assert held.wait(60)
        assert held.state is TransferState.LOST


def test_a_second_signal_ends_it_at_once(daemon: Kvstowd) -> None:
    with (
        connected_engine(daemon.target) as engine,
        daemon.held_stores(),
        Client(daemon.target, PATIENT) as client,
    ):
        engine.begin_store([1, 2], [0, 1])
        wait_for(lambda: runs(client), "the held copy")
        daemon.terminate()
        daemon.wait_line("draining; a second signal ends the process at once")
        daemon.terminate()
        assert daemon.wait_exit() != 0


def test_a_signal_during_the_start_ends_it(directory: Path) -> None:
    daemon = Kvstowd(directory, pool_size="1GiB")
    daemon.wait_line("listening")
    daemon.terminate()
    assert daemon.wait_exit() == 0
