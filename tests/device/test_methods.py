"""Which calls make the copies of a GPU, and that a driver that refuses batches at run time gets others, once and loudly."""

from collections.abc import Iterator

import numpy as np
import pytest
from structlog.testing import capture_logs

from device.conftest import CudaRig, cuda_rig, stub_rig
from device.rig import SESSION, GpuMemory, Recorder, blocks_in_a_row, make_copy, random_bytes
from device.stub import compiled, refuse_batches
from kvstow.server.device.base import DeviceError, Direction, Region
from kvstow.server.device.cuda.driver import INVALID_VALUE, NOT_SUPPORTED
from kvstow.server.device.pool import HostPool
from support.waiting import wait_for

BLOCK = 4096
SPANS = blocks_in_a_row(40, BLOCK)
SIZE = SPANS.size_bytes


@pytest.fixture
def rig(pool: HostPool) -> Iterator[CudaRig]:
    with cuda_rig(pool) as rig:
        yield rig


def attach(rig: CudaRig, gpu: int = 0) -> tuple[GpuMemory, Region]:
    memory = GpuMemory(rig.engine, SIZE, gpu=gpu)
    return memory, rig.device.open_region(memory.handle, SESSION)


def copy(rig: CudaRig, region: Region, direction: Direction) -> list[tuple[int, str]]:
    owner = Recorder()
    rig.device.submit(make_copy(owner, direction, SPANS, [region]))
    return owner.wait_end().failures


def round_trip(rig: CudaRig, memory: GpuMemory, region: Region, seed: int) -> None:
    """Store and load; the bytes are right."""
    memory.write(content := random_bytes(SIZE, seed))
    assert copy(rig, region, Direction.STORE) == []
    assert np.array_equal(rig.pool[:SIZE], content)
    memory.write(random_bytes(SIZE, seed + 1))
    assert copy(rig, region, Direction.LOAD) == []
    assert np.array_equal(memory.read(), content)


def methods(rig: CudaRig) -> list[str]:
    return [health.copies for health in rig.device.health()]


def test_which_calls_make_the_copies_is_said_of_each_gpu_in_use(pool: HostPool) -> None:
    for batched, method in ((True, "batches"), (False, "rows")):
        with capture_logs() as logs, cuda_rig(pool, batched=batched) as rig:
            assert methods(rig) == ["", ""]
            attach(rig, gpu=1)
            assert methods(rig) == ["", method]
        (line,) = [line for line in logs if line["event"] == "a GPU is in use"]
        assert (line["gpu"], line["copies"]) == (rig.driver.world.uuids[1], method)


@pytest.mark.parametrize("code", [NOT_SUPPORTED, INVALID_VALUE])
@pytest.mark.parametrize("issued", [0, 1])
def test_a_driver_that_refuses_its_first_batch_gets_rows_from_then_on(
    rig: CudaRig, code: int, issued: int
) -> None:
    """Also if some of what it refused was queued all the same."""
    with capture_logs() as logs, rig.driver.refusing_batches(code, issued):
        memory, region = attach(rig)
        assert methods(rig) == ["rows", ""]
        for seed in range(3):
            round_trip(rig, memory, region, seed)
    assert rig.driver.calls["copy_batch"] == 1
    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert "refuses copies in batches" in line["event"]
    assert line["gpu"] == rig.driver.world.uuids[0]
    assert f"({code})" in line["reason"]
    _, other = attach(rig, gpu=1)
    assert methods(rig) == ["rows", "batches"]
    assert copy(rig, other, Direction.STORE) == []


@pytest.mark.parametrize("code", [NOT_SUPPORTED, INVALID_VALUE])
def test_the_first_load_may_be_refused_although_stores_were_not(rig: CudaRig, code: int) -> None:
    memory, region = attach(rig)
    memory.write(content := random_bytes(SIZE))
    assert copy(rig, region, Direction.STORE) == []
    with rig.driver.refusing_batches(code, issued=2):
        memory.write(random_bytes(SIZE, 1))
        assert copy(rig, region, Direction.LOAD) == []
    assert np.array_equal(memory.read(), content)
    assert methods(rig) == ["rows", ""]


def test_a_batch_that_is_refused_after_others_were_taken_fails_alone(rig: CudaRig) -> None:
    _, region = attach(rig)
    with rig.driver.refusing_batches(INVALID_VALUE, issued=1):
        failures = copy(rig, region, Direction.STORE)
    assert len(failures) == 40
    assert methods(rig) == ["batches", ""]
    assert copy(rig, region, Direction.STORE) == []


def test_batches_that_are_no_longer_supported_are_done_without(rig: CudaRig) -> None:
    memory, region = attach(rig)
    round_trip(rig, memory, region, 1)
    with rig.driver.refusing_batches(NOT_SUPPORTED, issued=1):
        round_trip(rig, memory, region, 5)
    assert methods(rig) == ["rows", ""]


@pytest.mark.parametrize("code", [NOT_SUPPORTED, INVALID_VALUE])
def test_what_rows_cannot_copy_either_is_no_fault_of_batches(rig: CudaRig, code: int) -> None:
    with (
        rig.driver.refusing_batches(code, issued=1),
        rig.driver.failing("copy_rows", INVALID_VALUE),
        pytest.raises(DeviceError, match="copy_rows says"),
    ):
        attach(rig)
    assert rig.driver.mapped() == []
    memory, region = attach(rig)
    assert methods(rig) == ["batches", ""]
    round_trip(rig, memory, region, 1)


def test_an_error_of_another_kind_is_no_refusal(rig: CudaRig) -> None:
    with rig.driver.refusing_batches(2, issued=0), pytest.raises(DeviceError, match=r"\(2\)"):
        attach(rig)
    assert rig.driver.calls["copy_rows"] == 0


@compiled
@pytest.mark.parametrize("batches", ["12", "13"])
@pytest.mark.parametrize("code", [NOT_SUPPORTED, INVALID_VALUE])
def test_the_binding_falls_back_as_well(pool: HostPool, batches: str, code: int) -> None:
    """Some copies of the batch that is refused were made."""
    refuse_batches(batches, code, made=1)
    try:
        with stub_rig(pool, batches, copies="rows") as rig:
            memory = rig.allocate(SIZE)
            region = rig.device.open_region(memory.handle, SESSION)
            memory.write(content := random_bytes(SIZE))
            for direction in (Direction.STORE, Direction.LOAD):
                owner = Recorder()
                rig.device.submit(make_copy(owner, direction, SPANS, [region]))
                assert owner.wait_end().failures == []
                if direction is Direction.STORE:
                    memory.write(random_bytes(SIZE, 1))
            assert np.array_equal(memory.read(), content)
    finally:
        refuse_batches(batches, 0, 0)


def test_both_threads_of_a_lane_may_be_refused_at_once(rig: CudaRig) -> None:
    _, region = attach(rig)
    owners = [Recorder(), Recorder()]
    with capture_logs() as logs, rig.driver.refusing_batches(NOT_SUPPORTED, issued=1):
        with rig.driver.hanging("copy_rows"):
            for owner in owners:
                spans = blocks_in_a_row(2, BLOCK)
                rig.device.submit(make_copy(owner, Direction.STORE, spans, [region]))
            wait_for(lambda: rig.driver.calls_waiting == 2, "both threads, each refused")
        assert [owner.wait_end().failures for owner in owners] == [[], []]
    assert len([line for line in logs if line["log_level"] == "warning"]) == 1
