"""A copy waits for its fence, keeps nobody else, and leaves when nobody wants it; without a fence bytes come out wrong."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from device.conftest import CudaRig, cuda_rig
from device.rig import (
    SESSION,
    Bytes,
    GpuMemory,
    Recorder,
    blocks_in_a_row,
    make_copy,
    random_bytes,
)
from kvstow.server.core.spans import Spans
from kvstow.server.device.base import DeviceError, Direction, Fence, Region
from kvstow.server.device.faults import FaultRule, FaultyDevice, Hold
from kvstow.server.device.pool import HostPool
from support.driver_model_world import Event, Stream
from support.waiting import DEADLINE_S, wait_for

BLOCKS, BLOCK = 16, 4096
SPANS = blocks_in_a_row(BLOCKS, BLOCK)
SIZE = BLOCKS * BLOCK
SEEDS = range(24)


@dataclass(frozen=True)
class Engine:
    """An engine with memory that is attached, a stream, and one fence."""

    rig: CudaRig
    memory: GpuMemory
    region: Region
    stream: Stream
    event: Event
    fence: Fence

    def copy(self, direction: Direction, fence: Fence | None, spans: Spans = SPANS) -> Recorder:
        owner = Recorder()
        copy = make_copy(owner, direction, spans, [self.region], fence=fence)
        self.rig.device.submit(copy)
        return owner

    def launch(self, kernel: Callable[[], None], steps: int = 30) -> None:
        """Queue a kernel, and record the fence behind it."""
        self.rig.engine.launch(self.stream, kernel, steps)
        self.rig.engine.record(self.event, self.stream)


def engine(rig: CudaRig) -> Engine:
    memory = GpuMemory(rig.engine, SIZE)
    event, handle = rig.engine.event()
    return Engine(
        rig,
        memory,
        rig.device.open_region(memory.handle, SESSION),
        rig.engine.stream(),
        event,
        rig.device.open_fence(handle, SESSION),
    )


def store_behind_a_kernel(pool: HostPool, seed: int, *, fenced: bool) -> bool:
    """Compute and store at once; whether what was stored is what was computed."""
    pool.memory.view[:] = 0
    with cuda_rig(pool, seed=seed) as rig:
        one, computed = engine(rig), random_bytes(SIZE, seed)
        one.launch(lambda: one.memory.write(computed))
        end = one.copy(Direction.STORE, one.fence if fenced else None).wait_end()
        assert end.failures == []
        return np.array_equal(rig.pool[:SIZE], computed)


def load_behind_a_kernel(pool: HostPool, seed: int, *, fenced: bool) -> bool:
    """Read blocks and load others into them at once; whether what was read is what had been there."""
    pool.memory.view[:] = 1
    with cuda_rig(pool, seed=seed) as rig:
        one, before = engine(rig), random_bytes(SIZE, seed)
        one.memory.write(before)
        read: list[Bytes] = []
        one.launch(lambda: read.append(one.memory.read()))
        end = one.copy(Direction.LOAD, one.fence if fenced else None).wait_end()
        assert end.failures == []
        rig.engine.synchronize(one.stream)
        assert (one.memory.read() == 1).all()
        return np.array_equal(read[0], before)


@pytest.mark.parametrize("copy_behind_a_kernel", [store_behind_a_kernel, load_behind_a_kernel])
def test_with_a_fence_all_bytes_are_right_and_without_one_some_are_wrong(
    pool: HostPool, copy_behind_a_kernel: Callable[..., bool]
) -> None:
    assert all(copy_behind_a_kernel(pool, seed, fenced=True) for seed in SEEDS)
    unfenced = [copy_behind_a_kernel(pool, seed, fenced=False) for seed in SEEDS]
    assert not all(unfenced)


@pytest.fixture
def waiting(cuda: CudaRig) -> Iterator[Engine]:
    """An engine whose kernel does not end while the test runs."""
    one = engine(cuda)
    with kernel_held(one):
        yield one


@contextmanager
def kernel_held(one: Engine) -> Iterator[None]:
    one.launch(lambda: None)
    with one.rig.driver.world.held(one.stream):
        yield


def test_a_copy_that_waits_keeps_nobody_elses(waiting: Engine) -> None:
    held = [waiting.copy(direction, waiting.fence) for direction in Direction]
    for direction in Direction:
        assert waiting.copy(direction, None).wait_end().failures == []
    assert [waiting.rig.device.queue_depth(direction) for direction in Direction] == [1, 1]
    assert [owner.start_count for owner in held] == [0, 0]
    assert all(health.healthy for health in waiting.rig.device.health())
    for owner in held:
        owner.abandon()
        owner.wait_end()


def test_a_copy_that_nobody_wants_leaves_at_once(waiting: Engine) -> None:
    unwanted, abandoned = Recorder(wanted=False), Recorder()
    for owner in (unwanted, abandoned):
        copy = make_copy(owner, Direction.STORE, SPANS, [waiting.region], fence=waiting.fence)
        waiting.rig.device.submit(copy)
        owner.abandon()
    assert abandoned.wait_end().failures == [(block, "abandoned") for block in range(BLOCKS)]
    wait_for(lambda: not waiting.rig.device.queue_depth(Direction.STORE), "an empty queue")
    assert (unwanted.start_count, unwanted.ends) == (1, [])
    assert not waiting.rig.pool.any()


def test_the_death_of_an_engine_keeps_only_its_own_copies(cuda: CudaRig) -> None:
    one = engine(cuda)
    with kernel_held(one):
        owner = one.copy(Direction.STORE, one.fence)
        cuda.engine.kill()
    unfenced = one.copy(
        Direction.STORE, None
    )  # its memory is the daemon's as long as it is mapped
    assert unfenced.wait_end().failures == []
    assert owner.start_count == 0
    owner.abandon()
    assert owner.wait_end().failed == list(range(BLOCKS))


def test_an_event_that_cannot_be_read_fails_its_copy(cuda: CudaRig) -> None:
    one = engine(cuda)
    one.launch(lambda: None)
    with cuda.driver.failing("event_reached", 400, "CUDA_ERROR_INVALID_HANDLE"):
        end = one.copy(Direction.STORE, one.fence).wait_end()
    reason = "its fence cannot be read: event_reached says CUDA_ERROR_INVALID_HANDLE (400)"
    assert end.failures == [(block, reason) for block in range(BLOCKS)]


def test_a_closed_fence_is_not_waited_for(cuda: CudaRig) -> None:
    one = engine(cuda)
    cuda.device.close_fence(one.fence)
    end = one.copy(Direction.STORE, one.fence).wait_end()
    assert {reason for _, reason in end.failures} == {
        "its fence is not one that is open on its GPU"
    }
    with pytest.raises(DeviceError, match="not open"):
        cuda.device.close_fence(one.fence)


def test_what_waits_at_close_ends_as_failed(cuda: CudaRig) -> None:
    one = engine(cuda)
    with kernel_held(one):
        owner = one.copy(Direction.LOAD, one.fence)
        cuda.device.close(DEADLINE_S)
        assert {reason for _, reason in owner.wait_end().failures} == {"the device was closed"}
        late = one.copy(Direction.LOAD, None)
        assert late.wait_end().failed == list(range(BLOCKS))


def test_a_held_copy_waits_for_its_fence_too(cuda: CudaRig) -> None:
    one, device = engine(cuda), FaultyDevice(cuda.device)
    rule = device.add(FaultRule(Hold()))
    computed, owner = random_bytes(SIZE), Recorder()
    one.launch(lambda: one.memory.write(computed))
    device.submit(make_copy(owner, Direction.STORE, SPANS, [one.region], fence=one.fence))
    owner.wait_start()
    device.remove(rule)
    assert owner.wait_end().failures == []
    assert np.array_equal(cuda.pool[:SIZE], computed)


def test_many_copies_wait_for_many_fences(cuda: CudaRig) -> None:
    """Each for its own, in an order that the kernels decide."""
    engines = [engine(cuda) for _ in range(8)]
    owners = []
    for number, one in enumerate(engines):
        one.launch(partial(one.memory.write, random_bytes(SIZE, number)), steps=1 + number % 3)
        spans = blocks_in_a_row(1, BLOCK)
        spans.pool_offset[:] = number * BLOCK
        owners.append(one.copy(Direction.STORE, one.fence, spans))
    assert all(owner.wait_end().failures == [] for owner in owners)
    expected = [random_bytes(SIZE, number)[:BLOCK] for number in range(len(engines))]
    assert np.array_equal(cuda.pool[: 8 * BLOCK], np.concatenate(expected))
