"""The CUDA device: all GPUs that the daemon sees, told apart by their UUIDs.

Decided here: which GPU a handle and a copy are for, how the pool is page-locked, and that a GPU that does not answer is
noticed. Nothing of CUDA happens on the threads of those who call: each GPU has its own.

Page-locking needs a context, so one GPU gets its context at the start; the others with their first region.
"""

import threading
import time
from collections.abc import Callable, Sequence

import structlog

from kvstow.server.device.base import (
    CLOSE_S,
    Copy,
    DeviceError,
    DeviceHealth,
    Direction,
    Fence,
    Region,
    UnknownGpuError,
)
from kvstow.server.device.handles import CudaEventHandle, CudaHandle, Handle, SharedMemoryHandle
from kvstow.server.device.pool import HostPool
from kvstow.server.device.streams import refuse

from .batches import HostChunks
from .context import CudaRegion
from .driver import CudaError, Driver
from .fences import CudaFence
from .gpu import LIMIT_S, Gpu, Terms
from .lane import PIECE_BYTES
from .pinning import CHUNK_BYTES, PinnedPool

_log = structlog.get_logger("kvstow.device")

WATCH_PERIOD_S = 1.0


class CudaDevice:
    """Copies between the host pool and engine memory on GPUs. Any thread may call any method.

    Args:
        driver: makes the calls.
        pool: the host pool; it must outlive the device.
        pinned: whether the pool will be page-locked, by `pin`, before the first copy.
        watchdog_s: how long a call of the driver may take before its GPU counts as stuck.
        piece_bytes: most that is copied before another copy may get in between.
        chunk_bytes: most that is page-locked in one call.
        limit_s: how long others wait for a GPU that does not count as stuck.
        kernel: whether a kernel makes the copies, for which the pool has to be page-locked.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self,
        driver: Driver,
        pool: HostPool,
        *,
        pinned: bool,
        watchdog_s: float,
        piece_bytes: int = PIECE_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
        limit_s: float = LIMIT_S,
        kernel: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        memory = pool.memory
        host = HostChunks(memory.address, chunk_bytes if pinned else memory.view.size)
        assert pinned or not kernel, (
            "a kernel cannot copy from and to memory that is not page-locked"
        )
        terms = Terms(
            driver, host, memory.view.size, pinned, watchdog_s, clock, piece_bytes, limit_s, kernel
        )
        self._gpus = {info.uuid: Gpu(info, terms) for info in driver.gpus()}
        self._pinned = PinnedPool(memory, chunk_bytes) if pinned else None
        self._watch = Watchdog(tuple(self._gpus.values()))
        self._watch.start()

    @property
    def uuids(self) -> Sequence[str]:
        """The GPUs that the daemon sees."""
        return tuple(self._gpus)

    def pin(self, progress: Callable[[int], None]) -> None:
        """Page-lock the pool, unless it is to stay as it is.

        Args:
            progress: told in this thread how many bytes are done; what it raises ends the work.

        Raises:
            DeviceError: the driver refused; says what there is and what to do.
        """
        if self._pinned is not None:
            self._pinned.lock(self._first, progress)

    def open_region(self, handle: Handle, session: int) -> Region:
        """See `Device.open_region`."""
        match handle:
            case CudaHandle():
                return self._gpu(handle.gpu_uuid).open_region(handle, session)
            case SharedMemoryHandle():
                raise DeviceError("memory in files is not a GPU's")

    def close_region(self, region: Region) -> None:
        """See `Device.close_region`."""
        match region:
            case CudaRegion():
                self._gpu(region.device).close_region(region)
            case _:
                raise DeviceError("the region is not open on this device")

    def open_fence(self, handle: CudaEventHandle, session: int) -> Fence:
        """See `Device.open_fence`."""
        return self._gpu(handle.gpu_uuid).open_fence(handle)

    def close_fence(self, fence: Fence) -> None:
        """See `Device.close_fence`."""
        match fence:
            case CudaFence():
                self._gpu(fence.device).close_fence(fence)
            case _:
                raise DeviceError("the fence is not open on this device")

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`; the regions of a copy are of one GPU."""
        match copy.regions:
            case [CudaRegion(device=uuid), *_]:
                self._gpus[uuid].submit(copy)
            case _:
                refuse(copy, "it has no region on a GPU")

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        return sum(gpu.queue_depth(direction) for gpu in self._gpus.values())

    def health(self) -> Sequence[DeviceHealth]:
        """See `Device.health`."""
        return [gpu.health() for gpu in self._gpus.values()]

    def close(self, limit_s: float = CLOSE_S) -> None:
        """See `Device.close`; all GPUs are told to end before any is waited for."""
        until = time.monotonic() + limit_s
        self._watch.stop()
        if not _all_within(until, [gpu.stop for gpu in self._gpus.values()]):
            _log.warning(
                "a GPU does not return from a copy: its memory stays mapped until the process ends"
            )
            return
        try:
            if self._pinned is not None:
                self._pinned.unlock(self._first, max(until - time.monotonic(), 0.0))
        except (CudaError, DeviceError) as error:
            _log.warning(
                "the host pool stays page-locked until the process ends", reason=str(error)
            )
        if not _all_within(until, [gpu.release for gpu in self._gpus.values()]):
            _log.warning("a GPU is given up by the end of the process only")

    @property
    def _first(self) -> Gpu:
        """The GPU whose context is there from the start if the pool is page-locked."""
        return next(iter(self._gpus.values()))

    def _gpu(self, uuid: str) -> Gpu:
        gpu = self._gpus.get(uuid)
        if gpu is None:
            raise UnknownGpuError(uuid, self.uuids)
        return gpu


def _all_within(until: float, ends: Sequence[Callable[[float], bool]]) -> bool:
    """Begin all ends, then wait for them with one deadline; whether all were in time.

    Args:
        until: the deadline, by the monotonic clock.
        ends: each waits for so many seconds at most, goes on waiting when called again, and says whether it is through.
    """
    for end in ends:
        end(0.0)
    in_time = [end(max(until - time.monotonic(), 0.0)) for end in ends]
    return all(in_time)


class Watchdog:
    """Fails what is queued for a GPU in trouble, so that it need not wait for it. Makes no call of the driver.

    Args:
        gpus: which are looked after.
    """

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = gpus
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cuda-watchdog", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> None:
        """Look after each of them once, in the calling thread."""
        for gpu in self._gpus:
            gpu.look_after()

    def _run(self) -> None:
        while not self._stopping.wait(WATCH_PERIOD_S):
            self.look()
