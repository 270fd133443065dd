"""What is done to engine memory on a GPU when it is opened: its ends are read, and nothing is written."""

from functools import partial

import numpy as np
import pytest

from device.conftest import CudaRig, cuda_rig
from device.rig import SESSION, GpuMemory, random_bytes
from kvstow.server.device.base import DeviceError, Direction, Region
from kvstow.server.device.cuda.batches import Batch
from kvstow.server.device.cuda.context import PROBE_BYTES, CudaRegion
from kvstow.server.device.pool import HostPool
from support.driver_model import DriverModel

BLOCK = 4096


def address_of(region: Region) -> int:
    match region:
        case CudaRegion(address=address):
            return address
    raise AssertionError("the region is not on a GPU")


@pytest.mark.parametrize("size_bytes", [1, PROBE_BYTES - 1, PROBE_BYTES, BLOCK])
def test_the_first_and_the_last_bytes_are_read(
    cuda: CudaRig, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    read: list[tuple[int, int]] = []
    copy_batch = DriverModel.copy_batch

    def remembered(driver: DriverModel, batch: Batch, stream: int) -> None:
        assert batch.direction is Direction.STORE
        read.extend(zip(batch.device.tolist(), batch.size.tolist(), strict=True))
        copy_batch(driver, batch, stream)

    monkeypatch.setattr(DriverModel, "copy_batch", remembered)
    memory = GpuMemory(cuda.engine, size_bytes)
    start = address_of(cuda.device.open_region(memory.handle, SESSION))
    length = min(size_bytes, PROBE_BYTES)
    assert read == [(start, length), (start + size_bytes - length, length)]


def test_what_an_engine_writes_meanwhile_stays(pool: HostPool) -> None:
    """An engine that its client attaches again, to a daemon that was restarted, is at work: its kernels run when they do."""
    for seed in range(24):
        with cuda_rig(pool, seed=seed) as rig:
            memory, stream = GpuMemory(rig.engine, BLOCK), rig.engine.stream()
            content = random_bytes(BLOCK, seed)
            rig.engine.launch(stream, partial(memory.write, content), steps=1 + seed % 3)
            rig.device.open_region(memory.handle, SESSION)
            rig.engine.synchronize(stream)
            assert np.array_equal(memory.read(), content)


@pytest.mark.parametrize("call", ["copy_batch", "record_event", "wait_event"])
def test_whatever_keeps_the_bytes_from_being_read_is_said_and_the_memory_unmapped(
    cuda: CudaRig, call: str
) -> None:
    memory = GpuMemory(cuda.engine, BLOCK)
    cuda.device.close_region(cuda.device.open_region(memory.handle, SESSION))
    with (
        cuda.driver.failing(call, 1, "CUDA_ERROR_INVALID_VALUE"),
        pytest.raises(DeviceError, match=rf"mapped but cannot be read: {call} says .*namespace"),
    ):
        cuda.device.open_region(memory.handle, SESSION)
    assert cuda.driver.mapped() == []
    cuda.engine.free(memory.allocation)
