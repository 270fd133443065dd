"""What a daemon under test copies with, and where its engines have their memory: files, or GPUs of the driver model."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kvstow.server.config import Config
from kvstow.server.core.types import Layout
from kvstow.server.daemon import Daemon
from kvstow.server.device.base import Device
from kvstow.server.device.cuda.device import CudaDevice
from kvstow.server.device.cuda.gpu import LIMIT_S
from kvstow.server.device.devices import Devices
from kvstow.server.device.host import HostDevice
from kvstow.server.device.kernel import CopyKernel
from kvstow.server.device.pool import HostPool

from .driver_model import DriverModel
from .driver_model_world import EngineProcess, World
from .memory import Rank, RankFile, RankGpu

CHUNK_BYTES = 4096
"""What is page-locked at once: copies lie across several."""

WATCHDOG_S = 60.0


class Place(Protocol):
    """Where an engine has its memory."""

    def rank(self, layout: Layout, block_count: int) -> Rank:
        """Memory for one rank."""
        ...


class Machine(Protocol):
    """What a daemon finds."""

    def device(self, pool: HostPool, config: Config, kernel: CopyKernel | None) -> Device:
        """What the daemon copies with."""
        ...

    def place(self, directory: Path) -> Place:
        """Where an engine that comes now has its memory; `directory` is on tmpfs."""
        ...

    def watch(self, daemon: Daemon) -> None:
        """The daemon is there."""
        ...

    def check(self) -> None:
        """The daemon is closed: nothing was done to the machine that may not be done, and nothing is left."""
        ...


class Files:
    """Where engines that run on the CPU have their memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def rank(self, layout: Layout, block_count: int) -> RankFile:
        """See `Place.rank`."""
        return RankFile(self._directory, layout, block_count)


class HostMachine:
    """Without GPUs."""

    def device(self, pool: HostPool, config: Config, kernel: CopyKernel | None) -> Device:
        """See `Machine.device`."""
        return HostDevice(pool, config.copy_threads, config.piece_size, kernel)

    def place(self, directory: Path) -> Place:
        """See `Machine.place`."""
        return Files(directory)

    def watch(self, daemon: Daemon) -> None:
        """See `Machine.watch`."""

    def check(self) -> None:
        """See `Machine.check`."""


class GpuPlace:
    """A process of an engine on one GPU.

    Args:
        world: where it runs.
        gpu: number of its GPU.

    Attributes:
        process: for tests that end it.
    """

    def __init__(self, world: World, gpu: int = 0) -> None:
        self.process = EngineProcess(world)
        self._gpu = gpu

    def rank(self, layout: Layout, block_count: int) -> RankGpu:
        """See `Place.rank`."""
        return RankGpu(self.process, layout, block_count, self._gpu)


class GpuMachine:
    """GPUs of the driver model.

    Args:
        gpu_count: how many.
        seed: decides the order of what nothing orders.
        watchdog_s: how long a call may take before its GPU counts as stuck.
        limit_s: how long others wait for a GPU that does not count as stuck.
        kernel: whether a kernel makes the copies.
        clock: by which the watchdog counts.

    Attributes:
        world: the GPUs.
        driver: what the daemon calls.
    """

    def __init__(
        self,
        gpu_count: int = 1,
        seed: int = 0,
        watchdog_s: float = WATCHDOG_S,
        limit_s: float = LIMIT_S,
        *,
        kernel: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.world = World(gpu_count, seed)
        self.driver = DriverModel(self.world)
        self._watchdog_s = watchdog_s
        self._limit_s = limit_s
        self._kernel = kernel
        self._clock = clock

    def device(self, pool: HostPool, config: Config, kernel: CopyKernel | None) -> Device:
        """See `Machine.device`."""
        cuda = CudaDevice(
            self.driver,
            pool,
            pinned=True,
            watchdog_s=self._watchdog_s,
            piece_bytes=config.piece_size,
            chunk_bytes=CHUNK_BYTES,
            limit_s=self._limit_s,
            kernel=self._kernel,
            clock=self._clock,
        )
        cuda.pin(lambda done_bytes: None)
        return Devices(HostDevice(pool, config.copy_threads, config.piece_size, kernel), cuda)

    def place(self, directory: Path) -> GpuPlace:
        """See `Machine.place`: a process of its own for each engine."""
        return GpuPlace(self.world)

    def watch(self, daemon: Daemon) -> None:
        """See `Machine.watch`: from now on no call may be made under its lock."""
        lock = OwnedLock()
        daemon._guard._lock = lock  # type: ignore[assignment]
        daemon._guard._progress = threading.Condition(lock)  # type: ignore[arg-type]
        self.driver.holds_lock = lock.is_mine

    def check(self) -> None:
        """See `Machine.check`."""
        self.driver.check_given_back()


class OwnedLock:
    """A lock that knows who holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See `threading.Lock`."""
        acquired = self._lock.acquire(blocking, timeout)
        if acquired:
            self._owner = threading.get_ident()
        return acquired

    def release(self) -> None:
        """See `threading.Lock`."""
        self._owner = None
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()

    def is_mine(self) -> bool:
        """Whether the calling thread holds it."""
        return self._owner == threading.get_ident()


MACHINES: dict[str, Callable[[], Machine]] = {"host": HostMachine, "cuda": GpuMachine}
