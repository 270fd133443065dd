"""No copy of any device leaves the region and the pool that it is of, not even for bytes that the device could reach."""

from dataclasses import replace

import numpy as np
import pytest

from device.conftest import POOL_BYTES
from device.rig import SESSION, Recorder, Rig, blocks_in_a_row, make_copy, random_bytes
from kvstow.server.core.spans import Spans
from kvstow.server.device.base import Direction

PAGE = 4096
ONE = blocks_in_a_row(1, PAGE)
OUTSIDE: dict[str, Spans] = {
    "a block beyond the region": blocks_in_a_row(2, PAGE),
    "some bytes beyond the region, in its allocation": blocks_in_a_row(1, PAGE + 256),
    "some bytes before the region, in its allocation": replace(ONE, region_offset=np.array([-1])),
    "a region that there is not": replace(ONE, region=np.array([1])),
    "a region counted from the end": replace(ONE, region=np.array([-1])),
    "before the pool": replace(ONE, pool_offset=np.array([-1])),
    "beyond the pool": replace(ONE, pool_offset=np.array([POOL_BYTES - PAGE + 1])),
}


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("name", OUTSIDE)
def test_no_copy_leaves_its_memory(rig: Rig, name: str, direction: Direction) -> None:
    memory = rig.allocate(PAGE)
    memory.write(content := random_bytes(PAGE))
    region = rig.device.open_region(memory.handle, SESSION)
    owner = Recorder()
    rig.device.submit(make_copy(owner, direction, OUTSIDE[name], [region]))

    reasons = {reason for _, reason in owner.wait_end().failures}
    assert reasons == {"DeviceError: a span lies outside its region or the host pool"}
    assert not rig.pool.any()
    assert np.array_equal(memory.read(), content)
