"""The end of the daemon with GPUs that hang: one deadline for all of them together, and nothing is begun anew."""

import threading
from collections.abc import Iterator

import pytest

from device.conftest import CudaRig, cuda_device, cuda_rig
from device.rig import SESSION, GpuMemory, Recorder, blocks_in_a_row, make_copy
from device.waits import Waits
from kvstow.server.device.base import DeviceBusyError, Direction, Region
from kvstow.server.device.pool import HostPool
from support.clock import ManualClock
from support.driver_model import DriverModel
from support.driver_model_world import EngineProcess, World
from support.waiting import DEADLINE_S, wait_for

BLOCK = 4096
SPANS = blocks_in_a_row(2, BLOCK)
LIMIT_S = DEADLINE_S
"""What is given to all GPUs together here, and used up at once by what hangs."""


@pytest.fixture
def rig(pool: HostPool) -> Iterator[CudaRig]:
    """No watchdog ever finds a call that hangs."""
    with cuda_rig(pool, clock=ManualClock()) as rig:
        yield rig


def attach(rig: CudaRig, gpu: int) -> Region:
    return rig.device.open_region(GpuMemory(rig.engine, SPANS.size_bytes, gpu=gpu).handle, SESSION)


def copy(rig: CudaRig, region: Region, direction: Direction) -> Recorder:
    owner = Recorder()
    rig.device.submit(make_copy(owner, direction, SPANS, [region]))
    return owner


def test_all_threads_that_hang_share_one_deadline(
    rig: CudaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = [attach(rig, gpu) for gpu in range(2)]
    with rig.driver.hanging("wait_event", gpu=0), rig.driver.hanging("wait_event", gpu=1):
        owners = [
            copy(rig, region, way) for region in regions for way in Direction for _ in range(2)
        ]
        wait_for(lambda: rig.driver.calls_waiting == len(owners), "eight threads that hang")
        waits = Waits(monkeypatch, rig.driver)
        rig.device.close(LIMIT_S)
        assert waits.seconds <= LIMIT_S
        assert len(rig.driver.mapped()) == 2, "they may still be copied to"
        assert [owner.ends for owner in owners] == [[]] * len(owners)
    assert all(owner.wait_end().failures == [] for owner in owners)


def test_a_gpu_that_hangs_takes_no_time_from_one_that_ends_its_piece(rig: CudaRig) -> None:
    """All are told to end before any is waited for: nothing is copied any more by the one, and its threads are gone."""
    stuck, fine = (attach(rig, gpu) for gpu in range(2))
    closing = threading.Thread(target=rig.device.close, args=[2 * DEADLINE_S])
    with rig.driver.hanging("wait_event", gpu=0):
        running = copy(rig, stuck, Direction.STORE)
        wait_for(lambda: rig.driver.calls_waiting, "a call that hangs")
        closing.start()
        wait_for(
            lambda: not any(t.name.startswith("gpu-1-") for t in threading.enumerate()),
            "the end of the threads of the other GPU",
        )
        late = copy(rig, fine, Direction.STORE).wait_end()
        assert {reason for _, reason in late.failures} == {"the device was closed"}
        assert closing.is_alive()
    closing.join(DEADLINE_S)
    assert not closing.is_alive()
    assert running.wait_end().failures == []


@pytest.mark.parametrize("call", ["unlock_pages", "close_memory", "release"])
def test_what_is_not_given_back_in_time_keeps_nobody(
    pool: HostPool, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    driver = DriverModel(World(2))
    engine, device = EngineProcess(driver.world), cuda_device(driver, pool, pinned=True)
    device.pin(lambda done_bytes: None)
    for gpu in range(2):
        device.open_region(GpuMemory(engine, BLOCK, gpu=gpu).handle, SESSION)
    waits = Waits(monkeypatch, driver)
    with driver.hanging(call, gpu=0):
        device.close(LIMIT_S)
        assert waits.seconds <= LIMIT_S
        wait_for(lambda: driver.contexts() == [0], "the other GPU to be given back")
        with pytest.raises(DeviceBusyError, match="the daemon ends"):
            device.open_region(GpuMemory(engine, BLOCK).handle, SESSION)
    wait_for(lambda: not driver.contexts(), "the GPU to be given back after all")
    device.close(LIMIT_S)  # now its thread ends, too
    driver.check_given_back()


def test_after_the_end_no_gpu_is_used_again(pool: HostPool) -> None:
    driver = DriverModel(World(2))
    engine, device = EngineProcess(driver.world), cuda_device(driver, pool, pinned=True)
    device.close()
    for gpu in range(2):
        with pytest.raises(DeviceBusyError, match="the daemon ends"):
            device.open_region(GpuMemory(engine, BLOCK, gpu=gpu).handle, SESSION)
    assert driver.contexts() == []


def test_page_locking_that_hangs_can_be_stopped(pool: HostPool) -> None:
    driver = DriverModel(World(1))
    device = cuda_device(driver, pool, pinned=True)

    class StopError(Exception):
        pass

    def stop(done_bytes: int) -> None:
        if driver.calls_waiting:
            raise StopError

    with driver.hanging("lock_pages"):
        with pytest.raises(StopError):
            device.pin(stop)
        device.close(0.0)
    wait_for(lambda: not driver.contexts(), "the GPU to be given back after all")
    driver.check()
