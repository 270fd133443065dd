"""What an engine exports, over a driver that is compiled here: the calls go through `ctypes` as they do to the real one."""

import ctypes
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvstow.client import FenceSlots, Transfer, TransferState
from kvstow.client.ipc import CannotExport, FenceRing, region, region_of
from kvstow.client.libcuda import CudaError, LibCuda

SOURCE = Path(__file__).with_name("libcuda_double.c")
BASE, BASE_BYTES = 0x7F0000000000, 1 << 20
OTHER, OTHER_BYTES = 0x7F0000200000, 4096
VIRTUAL = 0x7F0000300000
GPUS = ("00010203-0405-0607-0809-0a0b0c0d0e0f", "10111213-1415-1617-1819-1a1b1c1d1e1f")


@dataclass(frozen=True)
class Driver:
    """A driver, and what it says of itself."""

    cuda: LibCuda
    inside: ctypes.CDLL

    def records(self, handle: bytes) -> int:
        return int(self.inside.double_records(handle))

    def stream(self, handle: bytes) -> int:
        self.inside.double_stream.restype = ctypes.c_uint64
        return int(self.inside.double_stream(handle))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("libcuda") / "libcuda.so.1"
    subprocess.run(["cc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    return path


@pytest.fixture
def driver(library: Path) -> Iterator[Driver]:
    """Afterwards nothing is left of what was asked of it."""
    inside = ctypes.CDLL(str(library))
    yield Driver(LibCuda(str(library)), inside)
    assert [inside.double_retained(gpu) for gpu in range(2)] == [0, 0]
    assert (inside.double_live_events(), inside.double_depth()) == (0, 0)


@dataclass(frozen=True)
class FakeTensor:
    """A tensor as torch would describe it."""

    address: int
    sizes: Sequence[int]
    strides: Sequence[int]
    device: int = 0
    itemsize: int = 2

    def get_device(self) -> int:
        return self.device

    def data_ptr(self) -> int:
        return self.address

    def size(self) -> Sequence[int]:
        return self.sizes

    def stride(self) -> Sequence[int]:
        return self.strides

    def element_size(self) -> int:
        return self.itemsize


def test_a_tensor_is_exported_as_the_whole_allocation_and_an_offset(driver: Driver) -> None:
    tensor = FakeTensor(BASE + 512, sizes=(2, 8, 4), strides=(32, 4, 1))
    memory = region_of(tensor, driver.cuda).cuda_memory
    assert memory.gpu_uuid == GPUS[0]
    assert memory.allocation[:8] == BASE.to_bytes(8, "little")
    assert len(memory.allocation) == 64
    assert (memory.offset_bytes, memory.size_bytes) == (512, 2 * 8 * 4 * 2)


def test_gaps_and_the_order_of_dimensions_do_not_matter(driver: Driver) -> None:
    """What counts are the first and the last byte, as in the permuted views that engines keep."""
    tensor = FakeTensor(OTHER, sizes=(8, 2), strides=(4, 100), device=1, itemsize=4)
    memory = region_of(tensor, driver.cuda).cuda_memory
    assert (memory.gpu_uuid, memory.offset_bytes) == (GPUS[1], 0)
    assert memory.size_bytes == (7 * 4 + 1 * 100 + 1) * 4


def test_tensors_of_one_allocation_name_the_same_handle(driver: Driver) -> None:
    ends = [region(0, BASE, 64, driver.cuda), region(0, BASE + BASE_BYTES - 64, 64, driver.cuda)]
    first, last = (end.cuda_memory for end in ends)
    assert first.allocation == last.allocation
    assert last.offset_bytes == BASE_BYTES - 64


@pytest.mark.parametrize(
    ("address", "size_bytes", "complaint"),
    [
        (0x1000, 64, "there is no memory of a GPU at 0x1000"),
        (VIRTUAL, 64, "expandable_segments"),
        (OTHER, OTHER_BYTES + 1, "4097 bytes at 0x7f0000200000 are not in one allocation"),
    ],
)
def test_memory_that_cannot_be_exported_says_what_to_change(
    driver: Driver, address: int, size_bytes: int, complaint: str
) -> None:
    with pytest.raises(CannotExport, match=complaint):
        region(0, address, size_bytes, driver.cuda)


def test_memory_of_another_gpu_is_an_error_of_the_driver(driver: Driver) -> None:
    with pytest.raises(CudaError, match=r"cuIpcGetMemHandle: error 201"):
        region(0, OTHER, 64, driver.cuda)
    with pytest.raises(CudaError, match="cuDeviceGet: CUDA_ERROR_INVALID_DEVICE"):
        region(2, OTHER, 64, driver.cuda)


@pytest.mark.parametrize(
    "tensor", [FakeTensor(BASE, (4, 0), (1, 1)), FakeTensor(0, (4,), (1,), -1)]
)
def test_a_tensor_without_bytes_on_a_gpu_is_a_mistake(driver: Driver, tensor: FakeTensor) -> None:
    with pytest.raises(ValueError, match="no elements, or is not on a GPU"):
        region_of(tensor, driver.cuda)


def test_fences_are_recorded_on_the_stream_that_is_named_by_any_thread(driver: Driver) -> None:
    with FenceRing(1, 3, driver.cuda) as ring:
        assert [fence.gpu_uuid for fence in ring.fences] == [GPUS[1]] * 3
        handles = [fence.event for fence in ring.fences]
        assert len(set(handles)) == 3
        assert {len(handle) for handle in handles} == {64}
        recorder = threading.Thread(target=ring.record, args=(1, 0x7FFF_FFFF_FFF0))
        recorder.start()
        recorder.join()
        ring.record(2)
        assert [driver.records(handle) for handle in handles] == [0, 1, 1]
        assert [driver.stream(handle) for handle in handles] == [0, 0x7FFF_FFFF_FFF0, 0]
    ring.close()


def test_no_driver_and_an_old_one_are_said(tmp_path: Path) -> None:
    with pytest.raises(CudaError, match=r"the CUDA driver cannot be used: .*nothing"):
        LibCuda(str(tmp_path / "nothing"))
    with pytest.raises(CudaError, match=r"the CUDA driver cannot be used: .*cuInit"):
        LibCuda("libc.so.6")


def test_a_fence_is_free_again_when_its_transfer_has_ended() -> None:
    slots = FenceSlots(2)
    first, second = slots.take(), slots.take()
    assert (first, second, slots.take()) == (0, 1, None)
    transfer = Transfer(1)
    slots.free_after(1, transfer)
    assert slots.take() is None
    transfer.end(TransferState.LOST)
    assert slots.take() == 1
    unsent = Transfer()
    unsent.end(TransferState.FAILED)
    slots.free_after(0, unsent)
    assert slots.take() == 0
    slots.free(1)
    assert slots.take() == 1
