"""Devices to test, each with a small host pool, and shared memory for engines."""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from device.rig import EngineFile, EngineMemory, GpuMemory, Rig
from device.stub import StubMemory, compiled, count, library
from kvstow.server.device.cuda.device import CudaDevice
from kvstow.server.device.cuda.driver import Driver
from kvstow.server.device.cuda.libcuda import LibCuda
from kvstow.server.device.host import HostDevice
from kvstow.server.device.kernel import LIBRARY, CopyKernel, NativeKernel, NumpyKernel
from kvstow.server.device.pool import HostPool
from support.driver_model import DriverModel
from support.driver_model_world import EngineProcess, World
from support.waiting import DEADLINE_S

POOL_BYTES = 4 << 20
PIECE_BYTES = 10_000
WATCHDOG_S = DEADLINE_S
CHUNK_BYTES = 48 * 4096
"""What the CUDA device page-locks at once: spans lie across several."""

native = pytest.mark.skipif(not LIBRARY.exists(), reason="no C compiler was there at set-up")


@pytest.fixture
def shared_memory() -> Iterator[Path]:
    """A directory whose files live in memory."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="kvstow-test-") as directory:
        yield Path(directory)


@pytest.fixture
def pool() -> Iterator[HostPool]:
    pool = HostPool(POOL_BYTES)
    yield pool
    pool.close()


@pytest.fixture(params=[pytest.param("native", marks=native), "numpy"])
def kernel(request: pytest.FixtureRequest) -> CopyKernel:
    return NativeKernel(LIBRARY) if request.param == "native" else NumpyKernel()


@pytest.fixture
def host(pool: HostPool, kernel: CopyKernel) -> Iterator[HostDevice]:
    device = HostDevice(pool, copy_threads=2, piece_bytes=PIECE_BYTES, kernel=kernel)
    yield device
    device.close()


@dataclass(frozen=True)
class CudaRig(Rig):
    """The CUDA device over a model of the driver.

    Args:
        engine: a process that exports memory and events.
        driver: the model.
    """

    device: CudaDevice
    engine: EngineProcess
    driver: DriverModel


def cuda_device(
    driver: Driver,
    pool: HostPool,
    *,
    pinned: bool,
    clock: Callable[[], float] = time.monotonic,
    kernel: bool = False,
) -> CudaDevice:
    """A device with small pieces and chunks, so that there are many of both, which is never in a hurry."""
    return CudaDevice(
        driver,
        pool,
        pinned=pinned,
        watchdog_s=WATCHDOG_S,
        piece_bytes=PIECE_BYTES,
        chunk_bytes=CHUNK_BYTES,
        clock=clock,
        limit_s=DEADLINE_S,
        kernel=kernel,
    )


@contextmanager
def cuda_rig(
    pool: HostPool,
    *,
    pinned: bool = True,
    batched: bool = True,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
    kernel: bool = False,
) -> Iterator[CudaRig]:
    """The CUDA device; what it leaves behind, and what it did that CUDA forbids, fails the test."""
    driver = DriverModel(World(2, seed), pinned=pinned, batched=batched)
    engine = EngineProcess(driver.world)
    device = cuda_device(driver, pool, pinned=pinned, clock=clock, kernel=kernel)
    device.pin(lambda done_bytes: None)
    allocate = partial(GpuMemory, engine)
    try:
        yield CudaRig(device, pool.memory.view, allocate, engine, driver)
    finally:  # no thread of it may be found by the tests that follow
        device.close(DEADLINE_S)
    driver.check_given_back()


@pytest.fixture
def cuda(pool: HostPool) -> Iterator[CudaRig]:
    """The CUDA device."""
    with cuda_rig(pool) as rig:
        yield rig


@contextmanager
def stub_rig(
    pool: HostPool, batches: str, gpu: int = 0, *, kernel: bool = False, copies: str = "batches"
) -> Iterator[Rig]:
    """The CUDA device over the binding of the real driver, and a library that needs no GPU.

    What copies are made by when a GPU is in use has to be `copies` at the end.
    """
    driver = LibCuda(library(batches))
    device = cuda_device(driver, pool, pinned=True, kernel=kernel)
    device.pin(lambda done_bytes: None)
    kept: list[StubMemory] = []  # a real engine keeps its memory, and the library does not

    def allocate(size_bytes: int) -> StubMemory:
        kept.append(StubMemory(driver.gpus()[gpu].uuid, size_bytes))
        return kept[-1]

    yield Rig(device, pool.memory.view, allocate)
    assert {found.copies for found in device.health()} <= {copies, ""}, "a batch was refused"
    device.close(DEADLINE_S)
    things = ("mapped", "locked", "made", "contexts")
    assert [count(batches, thing) for thing in things] == [0] * len(things)


CUDA_RIGS: dict[str, Callable[[HostPool], AbstractContextManager[Rig]]] = {
    "cuda": cuda_rig,
    "cuda-without-batches": partial(cuda_rig, batched=False),
    "cuda-unpinned": partial(cuda_rig, pinned=False),
    "cuda-kernel": partial(cuda_rig, kernel=True),
}
STUB_RIGS: dict[str, Callable[[HostPool], AbstractContextManager[Rig]]] = {
    "libcuda-batches-none": partial(stub_rig, batches="none", copies="rows"),
    "libcuda-batches-12": partial(stub_rig, batches="12"),
    "libcuda-batches-13": partial(stub_rig, batches="13"),
    "libcuda-kernel": partial(stub_rig, batches="13", kernel=True, copies="kernel"),
}
RIGS = [
    pytest.param("native", marks=native),
    "numpy",
    *CUDA_RIGS,
    *(pytest.param(name, marks=compiled) for name in STUB_RIGS),
    pytest.param("gpu", marks=pytest.mark.gpu),
    pytest.param("gpu-kernel", marks=pytest.mark.gpu),
]


@pytest.fixture(scope="session")
def allocate_on_gpu() -> Iterator[Callable[[int], EngineMemory]]:
    """Memory of an engine in a process of its own, on a real GPU."""
    if not Path("/dev/nvidiactl").exists():
        pytest.skip("there is no GPU")
    exporter = pytest.importorskip("device.exporter")  # which needs torch
    with exporter.running_exporter() as engine:
        yield engine.allocate


@contextmanager
def gpu_rig(
    pool: HostPool, allocate: Callable[[int], EngineMemory], *, kernel: bool
) -> Iterator[Rig]:
    """The CUDA device as it is."""
    device = cuda_device(LibCuda(), pool, pinned=True, kernel=kernel)
    device.pin(lambda done_bytes: None)
    yield Rig(device, pool.memory.view, allocate)
    device.close()


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest, pool: HostPool, shared_memory: Path) -> Iterator[Rig]:
    """Whatever the contract is asked of."""
    if request.param in CUDA_RIGS:
        with CUDA_RIGS[request.param](pool) as over_model:
            yield over_model
        return
    if request.param in STUB_RIGS:
        with STUB_RIGS[request.param](pool) as over_library:
            yield over_library
        return
    if request.param in ("gpu", "gpu-kernel"):
        allocate, kernel = request.getfixturevalue("allocate_on_gpu"), request.param != "gpu"
        with gpu_rig(pool, allocate, kernel=kernel) as over_gpu:
            yield over_gpu
        return
    kernel = NativeKernel(LIBRARY) if request.param == "native" else NumpyKernel()
    device = HostDevice(pool, copy_threads=2, piece_bytes=PIECE_BYTES, kernel=kernel)
    yield host_rig_of(device, pool, shared_memory)
    device.close()


@pytest.fixture
def host_rig(host: HostDevice, pool: HostPool, shared_memory: Path) -> Rig:
    """The host device."""
    return host_rig_of(host, pool, shared_memory)


def host_rig_of(device: HostDevice, pool: HostPool, directory: Path) -> Rig:
    """A host device, and files for its engines."""
    names = itertools.count()
    return Rig(
        device,
        pool.memory.view,
        lambda size_bytes: EngineFile(directory / f"engine-{next(names)}", size_bytes),
    )
