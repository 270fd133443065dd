"""What only GPUs have: fences, devices that hang, memory that other processes hold on to."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kvstow.server.core.errors import (
    DeviceBusy,
    FenceInvalid,
    FenceOutOfRange,
    GpuUnknown,
    RegionInvalid,
)
from kvstow.server.core.requests import RankMemory
from kvstow.server.core.types import Group, Layout, TransferId, TransferState
from kvstow.server.device.handles import CudaHandle, RankHandles
from support.clock import ManualClock
from support.daemons import Rig, running_daemon
from support.driver_model_world import Event
from support.engine import BLOCK_COUNT, ONE_RANK, Engine, identity, keys
from support.machines import WATCHDOG_S, GpuMachine, GpuPlace
from support.memory import FENCES, RankGpu
from support.processes import slow_to_end
from support.waiting import wait_for

ENDED = "the engine ended, perhaps before it had written the block"
TWO_RANKS = Layout("float32", 16, 2, "", (Group((512,)),))


@pytest.fixture
def clock() -> ManualClock:
    """By which the watchdog counts: how long a call takes on a busy machine says nothing of the GPU."""
    return ManualClock()


@pytest.fixture
def machine(clock: ManualClock) -> GpuMachine:
    """Two GPUs, and a watchdog whose time passes when a test says so."""
    return GpuMachine(gpu_count=2, limit_s=600.0, clock=clock)


@pytest.fixture
def rig(machine: GpuMachine) -> Iterator[Rig]:
    with running_daemon(machine=machine) as running:
        yield running


def on_gpu(rig: Rig, machine: GpuMachine, gpu: int) -> Engine:
    """An engine whose one rank is on this GPU."""
    return Engine(rig.daemon, GpuPlace(machine.world, gpu))


def rank_of(engine: Engine, rank: int = 0) -> RankGpu:
    match engine.ranks[rank]:
        case RankGpu() as found:
            return found
    raise AssertionError("the rank is not on a GPU")


def test_a_copy_begins_when_every_rank_has_reached_its_fence(machine: GpuMachine) -> None:
    with running_daemon(layout=TWO_RANKS, machine=machine) as rig:
        engine = Engine(rig.daemon, rig.place, identity(TWO_RANKS))
        with machine.world.held(rank_of(engine, 1).stream):
            plan = engine.begin_store(keys(1, 2), [0, 1])
            (transfer,) = rig.daemon.snapshot().transfers
            wait_for(
                lambda: rig.daemon.unfinished_ranks([(engine.session, plan.transfer)]) == [[1]],
                "the copy of rank 0",
            )
            assert transfer.id == plan.transfer
            assert engine.hits(keys(1, 2)).pending_count == 2
            assert not engine.reports(plan.transfer)
        assert engine.ended(plan.transfer).state is TransferState.DONE
        engine.load(keys(1, 2), [4, 5])


def test_an_engine_that_hangs_keeps_nobody_elses_copies_and_can_take_its_memory_back(
    rig: Rig, machine: GpuMachine
) -> None:
    stuck, other = on_gpu(rig, machine, 0), on_gpu(rig, machine, 0)
    rank = rank_of(stuck)
    with machine.world.held(rank.stream):
        plans = [stuck.begin_store(keys(number), [number]) for number in (1, 2, 3)]
        other.store(keys(4), [0])
        other.load(keys(4), [1])
        assert rig.daemon.detach(stuck.session, 0, 60.0)
        assert rank.allocation.mapped_count == 0
        for plan in plans:
            assert stuck.ended(plan.transfer).state is TransferState.ABANDONED
        rank.process.free(rank.allocation)


def test_after_a_detachment_the_same_memory_can_be_attached_again(
    rig: Rig, machine: GpuMachine
) -> None:
    engine = on_gpu(rig, machine, 1)
    engine.store(keys(1, 2), [0, 1])
    assert rig.daemon.detach(engine.session, 0, 60.0)
    assert rig.daemon.reset(engine.session, 0).drained
    engine.generation += 1
    engine.attach(0)
    engine.store(keys(1), [3])
    engine.load(keys(1), [4])


def test_the_memory_of_an_engine_that_was_killed_is_free_for_the_next_one(
    rig: Rig, machine: GpuMachine
) -> None:
    engine = on_gpu(rig, machine, 0)
    engine.store(keys(9), [0])
    before = machine.world.used_bytes(0)
    let_go = rig.hold(session=engine.session, count=1)
    engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    waiting = engine.begin_store(keys(3), [2])
    rank = rank_of(engine)
    rank.process.kill()
    rig.daemon.close_session(engine.session)
    assert rank.allocation.mapped_count == 1, "a copy still reads it"
    let_go()
    rig.landed(waiting.transfer)
    wait_for(lambda: machine.world.used_bytes(0) == 0, "free memory")
    successor = on_gpu(rig, machine, 0)
    assert machine.world.used_bytes(0) == before
    successor.load(keys(9), [5])


def test_what_was_stored_behind_a_fence_that_the_end_of_its_engine_let_go_is_not_kept(
    rig: Rig, machine: GpuMachine
) -> None:
    with slow_to_end() as process:
        engine = Engine(rig.daemon, GpuPlace(machine.world), attach=False)
        rank = rank_of(engine)
        rig.daemon.attach(engine.session, 0, rank.memory, process.name)
        engine.store(keys(9), [0])
        with machine.world.held(rank.stream):
            store = engine.begin_store(keys(1, 2), [1, 2])
            load = engine.begin_load(keys(9), [3])
            process.begin_to_end()
            rank.process.kill(lets_fences_go=True)
        report = engine.ended(store.transfer)
        assert report.state is TransferState.FAILED
        assert {failure.reason for failure in report.failures} == {ENDED}
        assert engine.ended(load.transfer).state is TransferState.DONE
        assert engine.hits(keys(1, 2)).hit_count == 0
        assert engine.hits(keys(9)).hit_count == 1


def wait_stuck(machine: GpuMachine, clock: ManualClock) -> None:
    """Wait until a call hangs, and let more time pass than it may take."""
    wait_for(lambda: machine.driver.calls_waiting, "a call that hangs")
    clock.advance(WATCHDOG_S + 1)


def test_a_gpu_that_hangs_is_named_and_only_its_sessions_find_nothing(
    rig: Rig, machine: GpuMachine, clock: ManualClock
) -> None:
    hanging, well = on_gpu(rig, machine, 0), on_gpu(rig, machine, 1)
    hanging.store(keys(1), [0])
    with machine.driver.hanging("wait_event"):
        running = hanging.begin_store(keys(2), [1])
        wait_stuck(machine, clock)
        wait_for(lambda: unwell(rig) == {machine.world.uuids[0]}, "an unwell GPU")
        assert hanging.hits(keys(1)).hit_count == 0
        assert well.hits(keys(1)).hit_count == 1
        (gpu, other) = rig.daemon.info().gpus
        assert "has not returned for" in gpu.trouble
        assert not other.trouble
        with pytest.raises(DeviceBusy):
            on_gpu(rig, machine, 0)
        assert not hanging.reports(running.transfer)
    wait_for(lambda: not unwell(rig), "a GPU that answers again")
    assert hanging.ended(running.transfer).state is TransferState.DONE
    assert hanging.hits(keys(1)).hit_count == 1
    hanging.load(keys(1), [7])


def unwell(rig: Rig) -> set[str]:
    """The devices that do not answer."""
    return {found.device for found in rig.daemon.status().devices if not found.healthy}


def opened_events(machine: GpuMachine) -> int:
    """How many events of engines the daemon has open."""
    return sum(event.owner is not machine.driver for event in machine.driver.all(Event))


def test_memory_of_a_gpu_that_does_not_answer_is_closed_when_it_does(
    rig: Rig, machine: GpuMachine, clock: ManualClock
) -> None:
    engine, other = on_gpu(rig, machine, 0), on_gpu(rig, machine, 1)
    with machine.driver.hanging("open_memory"):
        late = threading.Thread(target=on_gpu, args=(rig, machine, 0))
        late.start()
        wait_stuck(machine, clock)
        wait_for(lambda: unwell(rig), "an unwell GPU")
        assert not rig.daemon.detach(engine.session, 0, 0.3)
        rig.daemon.check()
        assert rig.daemon.detach(other.session, 0, 60.0)
    late.join()
    assert rig.daemon.detach(engine.session, 0, 60.0)
    assert rank_of(engine).allocation.mapped_count == 0
    assert opened_events(machine) == FENCES, "those of the late one"


def test_memory_that_the_driver_is_slow_to_unmap_is_not_drained_before(
    rig: Rig, machine: GpuMachine, clock: ManualClock
) -> None:
    engine, other = on_gpu(rig, machine, 0), on_gpu(rig, machine, 1)
    with machine.driver.hanging("close_memory"):
        assert not rig.daemon.detach(engine.session, 0, 0.1)
        wait_stuck(machine, clock)
        wait_for(lambda: unwell(rig), "an unwell GPU")
        rig.daemon.check()
        other.store(keys(1), [0])
    assert rig.daemon.detach(engine.session, 0, 60.0)
    assert rank_of(engine).allocation.mapped_count == 0


def test_a_fence_that_no_rank_has_is_refused(rig: Rig, machine: GpuMachine) -> None:
    engine = on_gpu(rig, machine, 0)
    session, generation = engine.session, engine.generation
    complaint = f"fence {FENCES} is none of the {FENCES}"
    with pytest.raises(FenceOutOfRange, match=complaint):
        rig.daemon.store(session, generation, TransferId(1), [], 60.0, FENCES)
    with pytest.raises(FenceOutOfRange, match=complaint):
        rig.daemon.load(session, generation, TransferId(1), [], None, 60.0, FENCES)
    rig.daemon.check()


Spoil = Callable[[RankHandles, RankHandles], RankHandles]
"""Makes of good memory on GPU 0, and of some on GPU 1, what is refused."""


def handle_of(memory: RankHandles) -> CudaHandle:
    match memory.handles[0]:
        case CudaHandle() as handle:
            return handle
    raise AssertionError("the memory is not on a GPU")


MISTAKES: dict[str, tuple[Spoil, type[Exception], str]] = {
    "two GPUs": (
        lambda good, other: replace(good, handles=good.handles + other.handles),
        RegionInvalid,
        "region 1 is memory of .*: all memory of a rank has to be of one device",
    ),
    "a fence of another GPU": (
        lambda good, other: replace(good, fences=good.fences + other.fences),
        FenceInvalid,
        f"fence {FENCES} is of ",
    ),
    "a fence that is none": (
        lambda good, _: replace(
            good, fences=(*good.fences, replace(good.fences[0], event=b"\xff" * 64))
        ),
        FenceInvalid,
        f"fence {FENCES}: .*the event cannot be opened",
    ),
    "a handle that is none": (
        lambda good, _: replace(
            good, handles=(replace(handle_of(good), allocation=b"\xff" * 64),)
        ),
        RegionInvalid,
        "region 0: .*namespace",
    ),
    "an unknown GPU": (
        lambda good, _: RankMemory((replace(handle_of(good), gpu_uuid="elsewhere"),), good.groups),
        GpuUnknown,
        "does not see GPU elsewhere, only 00000000-.*, 00000000-",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_attached_is_refused_and_leaves_nothing_open(
    rig: Rig, machine: GpuMachine, mistake: str
) -> None:
    spoil, refusal, complaint = MISTAKES[mistake]
    session = rig.daemon.open_session(identity(), "engine", None).session
    good, other = (
        GpuPlace(machine.world, gpu).rank(ONE_RANK, BLOCK_COUNT).memory for gpu in range(2)
    )
    with pytest.raises(refusal, match=complaint):
        rig.daemon.attach(session, 0, spoil(good, other), None)
    rig.daemon.check()
    assert not machine.driver.mapped()
    assert not opened_events(machine)
    rig.daemon.attach(session, 0, good, None)
