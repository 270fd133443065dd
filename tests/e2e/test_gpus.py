"""The daemon as a process with a CUDA driver, in C and without a GPU: how it starts and ends, and what it says."""

import os
import signal
from pathlib import Path

import pytest

from device.stub import compiled, library
from kvstow.client import Client
from support.client_engine import PATIENT
from support.kvstowd import Kvstowd, environment, running_kvstowd
from support.waiting import wait_for

FIRST = "00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.fixture
def hanging(directory: Path) -> Path:
    """While this file is there, calls of the driver do not return."""
    return directory / "hanging"


def reached(hanging: Path) -> Path:
    """The file that says that a call does not return."""
    return hanging.with_suffix(".reached")


@pytest.fixture
def driver(directory: Path, hanging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every daemon finds this driver where the system would have one."""
    (directory / "libcuda.so.1").symlink_to(library("13"))
    with_driver = {
        **environment(),
        "LD_LIBRARY_PATH": str(directory),
        "STUB_HANG": str(hanging),
        "STUB_REACHED": str(reached(hanging)),
    }
    monkeypatch.setattr("support.kvstowd.environment", lambda: with_driver)


@compiled
@pytest.mark.usefixtures("driver")
def test_a_daemon_that_finds_gpus_page_locks_its_pool_before_it_is_ready(directory: Path) -> None:
    with running_kvstowd(directory) as daemon:
        events = [line["event"] for line in daemon.lines]
        assert events.index("GPUs found") < events.index("listening")
        assert events.index("page-locking the host pool") < events.index("ready")
        assert daemon.wait_line("GPUs found")["gpus"][0] == FIRST
        with Client(daemon.target, PATIENT) as client:
            info = client.server_info()
        assert (info.gpus[0].uuid, info.gpus[0].name) == (FIRST, "First")
        assert info.pinned
        assert info.cuda_off == ""
        daemon.terminate()
        assert daemon.wait_exit() == 0
    assert not [line for line in daemon.lines if line.get("level") in ("error", "warning")]


@compiled
@pytest.mark.usefixtures("driver")
def test_a_pool_that_is_not_page_locked_is_loud(directory: Path) -> None:
    with running_kvstowd(directory, no_pin=True) as daemon:
        assert daemon.wait_line(
            "the host pool is not page-locked: copies to and from GPUs are slow"
        )
        daemon.terminate()
        assert daemon.wait_exit() == 0


LEFT = "leaving with calls of the CUDA driver that do not return"


@compiled
@pytest.mark.usefixtures("driver")
def test_a_driver_that_hangs_keeps_no_daemon_from_ending(directory: Path, hanging: Path) -> None:
    """Not even by what the driver does when a process exits."""
    daemon = Kvstowd(directory, drain_grace_s=1)
    daemon.wait_ready()
    hanging.touch()
    daemon.terminate()
    assert daemon.wait_exit() == 0
    assert daemon.wait_line(LEFT)["threads"] == ["gpu-0"]
    assert not daemon.socket.exists()


@compiled
@pytest.mark.usefixtures("driver")
def test_a_second_signal_ends_a_daemon_that_waits_for_a_driver(
    directory: Path, hanging: Path
) -> None:
    daemon = Kvstowd(directory)
    daemon.wait_ready()
    hanging.touch()
    daemon.terminate()
    wait_for(reached(hanging).exists, "a call that hangs")
    daemon.terminate()
    assert daemon.wait_exit() == 128 + signal.SIGTERM


@compiled
@pytest.mark.usefixtures("driver")
def test_a_start_that_hangs_in_page_locking_can_be_stopped(directory: Path, hanging: Path) -> None:
    hanging.touch()
    daemon = Kvstowd(directory, drain_grace_s=1)
    wait_for(reached(hanging).exists, "page-locking that hangs")
    daemon.terminate()
    assert daemon.wait_exit() == 0
    assert daemon.wait_line("stopped before it was ready")
    assert daemon.wait_line(LEFT)


def test_cuda_that_is_asked_for_and_not_there_is_one_line(directory: Path) -> None:
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has a GPU")
    daemon = Kvstowd(directory, cuda="on")
    assert daemon.wait_exit() == 1
    assert "kvstowd: the CUDA driver cannot be used: " in daemon.output[-1]
    assert "set cuda to auto or off" in daemon.output[-1]
