"""The host device: engine memory is a file that both processes map, copied by worker threads.

Decided here: which regions are open and that no copy leaves them. Which files are taken for engine memory is `files`'
part, order and pieces are `streams`', the innermost loop is `kernel`'s.

No fence is needed on a CPU: what an engine wrote before its call is seen by the copy, and what a copy wrote is seen
by whoever hears of its end.

A region is unmapped when it was closed and the last copy that touches it has ended, so that a mistake in the
order of closing cannot become an access to memory that is not there.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from kvstow.server.core.spans import Spans

from .base import (
    CLOSE_S,
    Copy,
    CudaOffError,
    DeviceError,
    DeviceHealth,
    Direction,
    Fence,
    Origin,
    Region,
)
from .bounds import check_inside
from .files import map_file
from .handles import HOST, CudaEventHandle, CudaHandle, Handle, SharedMemoryHandle
from .kernel import CopyKernel, Memory, Regions, load_kernel
from .pool import HostPool
from .streams import CopyPiece, Streams

PIECE_BYTES = 4 << 20
"""Small enough that a load waits less than a millisecond for the piece before it, large enough that the work per
piece does not count."""

NO_CUDA = "this daemon takes memory in files only"
GONE = "its memory is gone: the engine's file was truncated"


@dataclass(frozen=True, slots=True, eq=False)
class HostRegion:
    """Engine memory that was mapped; the device keeps the mapping.

    Args:
        size_bytes: length of the region.
        origin: which bytes of which file it is.
    """

    size_bytes: int
    origin: Origin

    @property
    def device(self) -> str:
        """See `Region.device`."""
        return HOST


class HostDevice:
    """Copies between the host pool and files in shared memory. Any thread may call any method.

    Args:
        pool: the host pool; it must outlive the device.
        copy_threads: worker threads.
        piece_bytes: largest spans.
        kernel: the innermost loop; None: the best one that is installed.

    Raises:
        DeviceError: the kernel cannot be used.
    """

    def __init__(
        self,
        pool: HostPool,
        copy_threads: int = 2,
        piece_bytes: int = PIECE_BYTES,
        kernel: CopyKernel | None = None,
    ) -> None:
        self._pool = pool
        self._kernel = load_kernel() if kernel is None else kernel
        self._lock = threading.Lock()
        self._open: dict[Region, Memory] = {}
        self._streams = Streams(self._prepare, copy_threads, piece_bytes)

    @property
    def kernel_name(self) -> str:
        """Which innermost loop is in use, for the start log."""
        return self._kernel.name

    def open_region(self, handle: Handle, session: int) -> Region:
        """See `Device.open_region`."""
        match handle:
            case CudaHandle():
                raise CudaOffError(NO_CUDA)
            case SharedMemoryHandle():
                view, origin = map_file(handle)
        region = HostRegion(handle.size_bytes, origin)
        with self._lock:
            self._open[region] = Memory.of(view)
        return region

    def close_region(self, region: Region) -> None:
        """See `Device.close_region`."""
        with self._lock:
            if self._open.pop(region, None) is None:
                raise DeviceError("the region is not open on this device")

    def open_fence(self, handle: CudaEventHandle, session: int) -> Fence:
        """See `Device.open_fence`: there is none that could be opened."""
        raise CudaOffError(NO_CUDA)

    def close_fence(self, fence: Fence) -> None:
        """See `Device.close_fence`."""
        raise DeviceError("the fence is not open on this device")

    def health(self) -> Sequence[DeviceHealth]:
        """See `Device.health`: its threads are in nobody's hands but the kernel's."""
        depths = {direction: self.queue_depth(direction) for direction in Direction}
        return [DeviceHealth(HOST, "host memory", True, "", depths, "threads")]

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`."""
        self._streams.submit(copy)

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        return self._streams.queue_depth(direction)

    def close(self, limit_s: float = CLOSE_S) -> None:
        """See `Device.close`: nothing here hangs."""
        self._streams.close()
        with self._lock:
            self._open.clear()

    def _prepare(self, copy: Copy) -> CopyPiece:
        """Look up the memory of a copy; it stays mapped until the copy has ended."""
        try:
            memories = [self._open[region] for region in copy.regions]
        except KeyError:
            raise DeviceError("a region was closed before its copy began") from None
        pool, regions = self._pool.memory, Regions.of(memories)
        check_inside(copy.spans, pool.view.size, [memory.view.size for memory in memories])

        def copy_piece(piece: Spans) -> Sequence[tuple[int, str]]:
            faulted = self._kernel.copy(copy.direction, pool, regions, piece)
            return [(span, GONE) for span in faulted]

        return copy_piece
