"""An attach that is refused while the driver is slow, or unwilling, to give back what it had opened for it."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from kvstow.server.core.errors import DeviceBusy, FenceInvalid
from kvstow.server.core.types import SessionId
from kvstow.server.device.handles import RankHandles
from support.daemons import Rig, running_daemon
from support.driver_model_world import Event
from support.engine import BLOCK_COUNT, ONE_RANK, identity
from support.machines import GpuMachine, GpuPlace
from support.memory import FENCES
from support.waiting import wait_for

LIMIT_S = 600.0
"""How long anybody waits for a GPU here, unless it hangs."""


@pytest.fixture
def machine() -> GpuMachine:
    """One GPU."""
    return GpuMachine(limit_s=LIMIT_S)


@pytest.fixture(autouse=True)
def given_up(machine: GpuMachine, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long somebody has waited in vain.

    Whoever waits for a GPU that hangs finds his time over; others get what they wait for, however busy the machine is.
    """
    result, given_up = Future.result, list[float]()

    def waited(future: "Future[object]", timeout: float | None = None) -> object:
        if timeout != LIMIT_S:
            return result(future, timeout)
        wait_for(
            lambda: future.done() or machine.driver.calls_waiting, "a result or a call that hangs"
        )
        if not future.done():
            given_up.append(timeout)
            raise TimeoutError
        return result(future)

    monkeypatch.setattr(Future, "result", waited)
    return given_up


@pytest.fixture
def rig(machine: GpuMachine) -> Iterator[Rig]:
    with running_daemon(machine=machine) as running:
        yield running


@pytest.fixture
def session(rig: Rig) -> SessionId:
    return rig.daemon.open_session(identity(), "engine", None).session


@pytest.fixture
def good(machine: GpuMachine) -> RankHandles:
    """What can be attached."""
    return GpuPlace(machine.world).rank(ONE_RANK, BLOCK_COUNT).memory


@pytest.fixture
def bad(good: RankHandles) -> RankHandles:
    """The same, but for its last fence."""
    return replace(good, fences=(*good.fences, replace(good.fences[0], event=b"\xff" * 64)))


def opened_events(machine: GpuMachine) -> int:
    return sum(event.owner is not machine.driver for event in machine.driver.all(Event))


@pytest.mark.parametrize("call", ["close_memory", "destroy_event"])
def test_what_is_slow_to_be_given_back_changes_no_refusal_and_is_given_back(
    rig: Rig,
    machine: GpuMachine,
    session: SessionId,
    good: RankHandles,
    bad: RankHandles,
    call: str,
) -> None:
    with machine.driver.hanging(call):
        with (
            capture_logs() as logs,
            pytest.raises(FenceInvalid, match="the event cannot be opened"),
        ):
            rig.daemon.attach(session, 0, bad, None)
        assert not [line for line in logs if line["log_level"] == "error"], "it will be given back"
        rig.daemon.check()
        assert len(machine.driver.mapped()) == 1
        with pytest.raises(DeviceBusy):
            rig.daemon.attach(session, 0, good, None)
    wait_for(lambda: not machine.driver.mapped(), "memory that is given back")
    assert not opened_events(machine)
    assert machine.driver.calls["close_memory"] == machine.driver.calls["open_memory"] == 1
    rig.daemon.attach(session, 0, good, None)
    rig.daemon.check()
    assert rig.daemon.detach(session, 0, 60.0)


def test_a_slow_rollback_waits_for_the_gpu_once(
    rig: Rig,
    machine: GpuMachine,
    session: SessionId,
    bad: RankHandles,
    given_up: list[float],
) -> None:
    """And not once for each fence and each region."""
    with machine.driver.hanging("destroy_event"), pytest.raises(FenceInvalid):
        rig.daemon.attach(session, 0, bad, None)
    assert given_up == [LIMIT_S]
    assert FENCES > 1


@pytest.mark.parametrize("call", ["close_memory", "destroy_event"])
def test_what_the_driver_does_not_give_back_changes_no_refusal(
    rig: Rig,
    machine: GpuMachine,
    session: SessionId,
    bad: RankHandles,
    call: str,
) -> None:
    with (
        capture_logs() as logs,
        machine.driver.failing(call, 1, "CUDA_ERROR_INVALID_VALUE"),
        pytest.raises(FenceInvalid, match="the event cannot be opened"),
    ):
        rig.daemon.attach(session, 0, bad, None)
    rig.daemon.check()
    assert {line["reason"] for line in logs if line["log_level"] == "error"} != set()
    machine.driver.lose(0)  # so that nobody minds what is left open
