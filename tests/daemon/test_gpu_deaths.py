"""The process of an engine on a GPU dies: the daemon sees it, and lets go of its memory after the last copy and no later."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.daemons import Rig, running_daemon
from support.driver_model_world import Event
from support.engine import Engine, keys
from support.machines import GpuMachine, GpuPlace
from support.memory import RankGpu
from support.processes import named, running_process
from support.waiting import wait_for


@pytest.fixture
def machine() -> GpuMachine:
    return GpuMachine()


@pytest.fixture
def rig(machine: GpuMachine) -> Iterator[Rig]:
    with running_daemon(machine=machine) as running:
        yield running


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    with running_process([sys.executable, "-c", "import time; time.sleep(3600)"]) as process:
        yield process


@pytest.fixture
def engine(rig: Rig, machine: GpuMachine, child: subprocess.Popen[str]) -> Engine:
    """An engine that is that process."""
    return Engine(rig.daemon, GpuPlace(machine.world), process=named(child.pid))


def die(engine: Engine, child: subprocess.Popen[str]) -> None:
    """On the GPU and off it; nobody tells the daemon."""
    memory_of(engine).process.kill()
    child.kill()


def memory_of(engine: Engine) -> RankGpu:
    match engine.ranks[0]:
        case RankGpu() as found:
            return found
    raise AssertionError("the rank is not on a GPU")


def opened_events(machine: GpuMachine) -> int:
    """How many events of engines the daemon has open."""
    return sum(event.owner is not machine.driver for event in machine.driver.all(Event))


def test_the_memory_of_a_dead_engine_is_free_without_its_asking(
    rig: Rig, machine: GpuMachine, child: subprocess.Popen[str], engine: Engine
) -> None:
    engine.store(keys(1), [0])
    assert machine.world.used_bytes(0) > 0
    die(engine, child)
    wait_for(lambda: machine.world.used_bytes(0) == 0, "free memory")
    wait_for(lambda: not opened_events(machine), "closed events")
    assert not rig.daemon.snapshot().sessions
    successor = Engine(rig.daemon, GpuPlace(machine.world))
    successor.load(keys(1), [5])


def test_a_copy_of_a_dead_engine_ends_before_its_memory_is_unmapped(
    rig: Rig, machine: GpuMachine, child: subprocess.Popen[str], engine: Engine
) -> None:
    """As if it were on its way; the model would not take that the memory is unmapped under it."""
    allocation = memory_of(engine).allocation
    streams = machine.driver.streams()
    with machine.world.held(*streams):
        plan = engine.begin_store(keys(1, 2), [0, 1])
        wait_for(lambda: any(stream.queue for stream in streams), "a copy on its stream")
        die(engine, child)
        wait_for(lambda: not rig.daemon.snapshot().sessions, "the end of the session")
        (transfer,) = rig.daemon.snapshot().transfers
        assert transfer.abandoned
        assert allocation.mapped_count == 1
    rig.landed(plan.transfer)
    wait_for(lambda: machine.world.used_bytes(0) == 0, "free memory")
    successor = Engine(rig.daemon, GpuPlace(machine.world))
    assert successor.hits(keys(1, 2)).hit_count == 0


def test_a_copy_that_waits_for_a_dead_engines_fence_keeps_no_memory(
    rig: Rig, machine: GpuMachine, child: subprocess.Popen[str], engine: Engine
) -> None:
    """Its kernels will never reach it."""
    with machine.world.held(memory_of(engine).stream):
        engine.begin_store(keys(1, 2), [0, 1])
        die(engine, child)
        wait_for(lambda: machine.world.used_bytes(0) == 0, "free memory")
    wait_for(lambda: not rig.daemon.snapshot().transfers, "the end of the transfer")
