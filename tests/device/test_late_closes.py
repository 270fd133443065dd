"""Engine memory that a GPU takes long to unmap: one close waits for it, and not each of those behind it."""

import pytest

from device.conftest import CudaRig
from device.rig import SESSION, GpuMemory
from device.waits import Waits
from kvstow.server.device.base import DeviceBusyError
from support.waiting import DEADLINE_S

BLOCK = 4096


def test_nobody_waits_behind_a_close_that_is_late(
    cuda: CudaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of regions would else take as many times the limit, and the memory of other GPUs would stay mapped so long."""
    waits = Waits(monkeypatch, cuda.driver)
    regions = [
        cuda.device.open_region(GpuMemory(cuda.engine, BLOCK).handle, SESSION) for _ in range(3)
    ]
    with cuda.driver.hanging("close_memory"):
        for region in (*regions, regions[1]):
            with pytest.raises(DeviceBusyError, match="did not unmap engine memory yet"):
                cuda.device.close_region(region)
        assert waits.seconds == DEADLINE_S, "the limit of one"
    for region in regions:
        cuda.device.close_region(region)
    assert cuda.driver.mapped() == []
    assert cuda.driver.calls["close_memory"] == len(regions)
