"""Devices to test, each with a small host pool, and shared memory for engines."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from device.rig import EngineFile, Rig
from kvstow.server.device.host import HostDevice
from kvstow.server.device.kernel import LIBRARY, CopyKernel, NativeKernel, NumpyKernel
from kvstow.server.device.pool import HostPool

POOL_BYTES = 4 << 20
PIECE_BYTES = 10_000

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


@pytest.fixture
def rig(host: HostDevice, pool: HostPool, shared_memory: Path) -> Rig:
    """Whatever the contract is asked of."""
    names = itertools.count()
    return Rig(
        host,
        pool.memory.view,
        lambda size_bytes: EngineFile(shared_memory / f"engine-{next(names)}", size_bytes),
    )
