"""What only the CUDA device has: mappings of other processes' allocations, contexts, page-locked memory, several GPUs."""

import re
from collections.abc import Iterator

import numpy as np
import pytest

from device.conftest import CHUNK_BYTES, CudaRig, cuda_device, cuda_rig
from device.rig import SESSION, GpuMemory, Recorder, blocks_in_a_row, make_copy, random_bytes
from kvstow.server.device.base import (
    CudaOffError,
    DeviceBusyError,
    DeviceError,
    Direction,
    UnknownGpuError,
)
from kvstow.server.device.cuda.device import CudaDevice
from kvstow.server.device.devices import Devices, NoCuda
from kvstow.server.device.handles import HOST, CudaEventHandle, CudaHandle, SharedMemoryHandle
from kvstow.server.device.host import HostDevice
from kvstow.server.device.pool import HostPool
from support.driver_model import DriverModel
from support.driver_model_world import EngineProcess, World
from support.waiting import DEADLINE_S, wait_for

BLOCK = 4096
LATER = 2


def test_regions_of_one_allocation_share_a_mapping_until_the_last_is_closed(cuda: CudaRig) -> None:
    allocation = cuda.engine.allocate(8 * BLOCK)
    first, second, again = (
        cuda.device.open_region(cuda.engine.handle(allocation, start, BLOCK), SESSION)
        for start in (0, 4 * BLOCK, 0)
    )
    assert cuda.driver.calls["open_memory"] == 1
    assert len(cuda.driver.mapped()) == 1
    assert first.origin.memory == second.origin.memory == again.origin.memory
    assert (second.origin.start, second.origin.end) == (4 * BLOCK, 5 * BLOCK)

    cuda.device.close_region(first)
    cuda.device.close_region(second)
    allocation.view[:BLOCK] = content = random_bytes(BLOCK)
    owner = Recorder()
    cuda.store(owner, blocks_in_a_row(1, BLOCK), [again])
    assert owner.wait_end().failures == []
    assert np.array_equal(cuda.pool[:BLOCK], content)
    cuda.device.close_region(again)
    assert cuda.driver.mapped() == []
    cuda.engine.free(allocation)


def test_memory_is_opened_again_after_it_was_closed(cuda: CudaRig) -> None:
    memory = GpuMemory(cuda.engine, BLOCK)
    for _ in range(3):
        cuda.device.close_region(cuda.device.open_region(memory.handle, SESSION))
    assert cuda.driver.calls["open_memory"] == 3


def test_no_session_gets_the_mapping_of_another(cuda: CudaRig) -> None:
    memory = GpuMemory(cuda.engine, BLOCK)
    older = cuda.device.open_region(memory.handle, SESSION)
    with pytest.raises(DeviceBusyError, match=f"mapped for session {SESSION}"):
        cuda.device.open_region(memory.handle, LATER)

    cuda.device.close_region(older)
    newer = cuda.device.open_region(memory.handle, LATER)
    assert newer.origin.memory != older.origin.memory


def test_an_unknown_gpu_is_refused_with_both_lists(cuda: CudaRig) -> None:
    handle = CudaHandle("f" * 36, bytes(64), 0, BLOCK)
    with pytest.raises(UnknownGpuError) as refused:
        cuda.device.open_region(handle, SESSION)
    assert (refused.value.gpu, refused.value.visible) == ("f" * 36, tuple(cuda.driver.world.uuids))
    with pytest.raises(UnknownGpuError):
        cuda.device.open_fence(CudaEventHandle("f" * 36, bytes(64)), SESSION)


@pytest.mark.parametrize(
    ("offset_bytes", "size_bytes", "complaint"),
    [
        (0, 4 * BLOCK + 1, f"has {4 * BLOCK} bytes, the region ends at {4 * BLOCK + 1}"),
        (4 * BLOCK, 1, f"has {4 * BLOCK} bytes, the region ends at"),
        (-1, BLOCK, "offset_bytes -1 must be at least 0"),
        (0, 0, "size_bytes 0 at least 1"),
    ],
)
def test_a_region_outside_its_allocation_is_refused(
    cuda: CudaRig, offset_bytes: int, size_bytes: int, complaint: str
) -> None:
    allocation = cuda.engine.allocate(4 * BLOCK)
    handle = cuda.engine.handle(allocation, offset_bytes, size_bytes)
    with pytest.raises(DeviceError, match=re.escape(complaint)):
        cuda.device.open_region(handle, SESSION)
    assert cuda.driver.mapped() == []


def test_a_region_may_be_shorter_than_what_is_read_of_it(cuda: CudaRig) -> None:
    allocation = cuda.engine.allocate(3)
    region = cuda.device.open_region(cuda.engine.handle(allocation, 2, 1), SESSION)
    assert region.size_bytes == 1


def test_what_cannot_be_mapped_names_the_likely_setting(cuda: CudaRig) -> None:
    uuid = cuda.driver.world.uuids[0]
    with pytest.raises(DeviceError, match=r"IPC and the PID namespace.*expandable_segments"):
        cuda.device.open_region(CudaHandle(uuid, b"x" * 64, 0, BLOCK), SESSION)
    with pytest.raises(DeviceError, match="64 bytes, not 3"):
        cuda.device.open_region(CudaHandle(uuid, b"xxx", 0, BLOCK), SESSION)
    own = cuda.driver.own_process
    with pytest.raises(DeviceError, match="process exported it itself"):
        cuda.device.open_region(own.handle(own.allocate(BLOCK)), SESSION)
    with pytest.raises(DeviceError, match=r"event cannot be opened.*namespace"):
        cuda.device.open_fence(CudaEventHandle(uuid, b"x" * 64), SESSION)
    with pytest.raises(DeviceError, match="64 bytes, not 0"):
        cuda.device.open_fence(CudaEventHandle(uuid, b""), SESSION)


def test_a_killed_engine_leaves_its_memory_to_its_successor(cuda: CudaRig) -> None:
    memory = GpuMemory(cuda.engine, 16 * BLOCK)
    region = cuda.device.open_region(memory.handle, SESSION)
    owner = Recorder()
    cuda.store(owner, blocks_in_a_row(16, BLOCK), [region])
    cuda.engine.kill()
    assert owner.wait_end().failures == []
    assert cuda.driver.world.used_bytes(0) > 0

    cuda.device.close_region(region)
    assert cuda.driver.world.used_bytes(0) == 0


@pytest.fixture
def world() -> World:
    return World(gpu_count=2)


def test_a_gpu_has_no_context_before_it_is_used(pool: HostPool, world: World) -> None:
    driver = DriverModel(world, pinned=False)
    device = cuda_device(driver, pool, pinned=False)
    device.pin(lambda done_bytes: None)
    assert driver.contexts() == []

    engine = EngineProcess(world)
    device.open_region(engine.handle(engine.allocate(BLOCK, gpu=1)), SESSION)
    assert driver.contexts() == [1]
    assert len(driver.streams()) == 2
    device.close(DEADLINE_S)
    driver.check_given_back()


def test_the_pool_is_page_locked_in_chunks_with_progress(pool: HostPool, world: World) -> None:
    driver = DriverModel(world)
    device = cuda_device(driver, pool, pinned=True)
    done: list[int] = []
    device.pin(done.append)

    assert done == [*range(CHUNK_BYTES, pool.size_bytes, CHUNK_BYTES), pool.size_bytes]
    assert driver.locked_bytes() == pool.size_bytes
    assert driver.contexts() == [0]  # page-locking needs one
    device.close(DEADLINE_S)
    driver.check_given_back()


def test_page_locking_stops_when_it_is_told_to(pool: HostPool, world: World) -> None:
    driver = DriverModel(world)
    device = cuda_device(driver, pool, pinned=True)

    class StopError(Exception):
        pass

    def stop(done_bytes: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        device.pin(stop)
    assert driver.locked_bytes() == CHUNK_BYTES
    device.close(DEADLINE_S)
    driver.check_given_back()


@pytest.mark.parametrize(("chunks", "done"), [(0, "0.0"), (3, "0.6")])
def test_a_pool_that_cannot_be_page_locked_says_what_to_do(
    pool: HostPool, world: World, chunks: int, done: str
) -> None:
    """What was page-locked before is unlocked at the end."""
    driver = DriverModel(world)
    device = cuda_device(driver, pool, pinned=True)
    with (
        driver.failing("lock_pages", 2, "CUDA_ERROR_OUT_OF_MEMORY", chunks),
        pytest.raises(DeviceError) as error,
    ):
        device.pin(lambda done_bytes: None)
    for part in (
        f"host pool of 4.0 MiB beyond {done} MiB",
        "CUDA_ERROR_OUT_OF_MEMORY (2)",
        "MemAvailable in /proc/meminfo leaves",
        "RLIMIT_MEMLOCK is",
        "lower pool_size, raise the limit, or set pin to false",
    ):
        assert part in str(error.value)
    device.close(DEADLINE_S)
    driver.check_given_back()


@pytest.fixture
def both(pool: HostPool, cuda: CudaRig) -> Iterator[Devices]:
    """Host memory and GPUs in one."""
    host = HostDevice(pool)
    yield Devices(host, cuda.device)
    host.close()


def test_each_copy_goes_to_the_device_of_its_memory(both: Devices, cuda: CudaRig) -> None:
    with pytest.raises(DeviceError, match="No such file"):
        both.open_region(SharedMemoryHandle("/dev/shm/nothing", 0, 1), SESSION)
    memory = GpuMemory(cuda.engine, BLOCK)
    memory.write(random_bytes(BLOCK))
    region = both.open_region(memory.handle, SESSION)
    event, handle = cuda.engine.event()
    cuda.engine.record(event, cuda.engine.stream())
    fence = both.open_fence(handle, SESSION)
    owner = Recorder()
    both.submit(
        make_copy(owner, Direction.STORE, blocks_in_a_row(1, BLOCK), [region], fence=fence)
    )
    assert owner.wait_end().failures == []
    assert [health.device for health in both.health()] == [HOST, *cuda.driver.world.uuids]
    assert both.queue_depth(Direction.STORE) == 0
    both.close_fence(fence)
    both.close_region(region)
    with pytest.raises(DeviceError, match="not open"):
        both.close_region(region)
    with pytest.raises(DeviceError, match="not open"):
        both.close_fence(fence)


def test_without_cuda_device_memory_is_refused_with_the_reason(pool: HostPool) -> None:
    host = HostDevice(pool)
    devices = Devices(host, NoCuda("there is no driver"))
    with pytest.raises(CudaOffError, match="runs without CUDA: there is no driver"):
        devices.open_region(CudaHandle("0", bytes(64), 0, 1), SESSION)
    with pytest.raises(CudaOffError, match="there is no driver"):
        devices.open_fence(CudaEventHandle("0", bytes(64)), SESSION)
    assert [health.device for health in devices.health()] == [HOST]
    devices.close()


def test_two_gpus_copy_side_by_side(cuda: CudaRig) -> None:
    owners, contents = [], []
    for gpu in range(2):
        allocation = cuda.engine.allocate(64 * BLOCK, gpu)
        allocation.view[:] = content = random_bytes(64 * BLOCK, seed=gpu)
        region = cuda.device.open_region(cuda.engine.handle(allocation), SESSION)
        owner, spans = Recorder(), blocks_in_a_row(64, BLOCK)
        spans.pool_offset[:] += gpu * content.size
        cuda.store(owner, spans, [region])
        owners.append(owner)
        contents.append(content)
    assert [owner.wait_end().failures for owner in owners] == [[], []]
    assert np.array_equal(cuda.pool[: 128 * BLOCK], np.concatenate(contents))


def test_a_driver_that_does_not_tell_sizes_is_lived_with(pool: HostPool) -> None:
    with cuda_rig(pool) as rig:
        rig.driver.tells_sizes = False
        memory = GpuMemory(rig.engine, BLOCK)
        rig.device.open_region(memory.handle, SESSION)


def test_closing_twice_is_no_mistake(pool: HostPool, world: World) -> None:
    device: CudaDevice = cuda_device(DriverModel(world), pool, pinned=True)
    device.pin(lambda done_bytes: None)
    device.close(DEADLINE_S)
    device.close(DEADLINE_S)
    wait_for(lambda: all(health.healthy for health in device.health()), "healthy")
