"""What one GPU has while it is in use: streams with their threads, copies that wait for fences, engine memory.

Made and unmade by the GPU's control thread, which alone calls the methods that open and close; the GPU is current in it.
Copies are submitted by any thread.

Engine memory is examined when it is opened: that it is as large as the engine says, and that its first and last bytes can
be read by the way that stores take. Nothing is written to it: the engine may be at work in it, also just then, and what
was written a moment later would not be what was read a moment before. That loads can be made follows: the mapping is
readable and writable or not there, and the page of host memory that the bytes are read into is locked as the pool is.
"""

import mmap
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from kvstow.server.device.base import Copy, DeviceError, Direction, Origin, Region
from kvstow.server.device.handles import CudaEventHandle, CudaHandle
from kvstow.server.device.streams import refuse

from .batches import Batch
from .beats import Pulse
from .driver import (
    HANDLE_BYTES,
    INVALID_PTX,
    NO_BINARY,
    NO_JIT_COMPILER,
    OUT_OF_MEMORY,
    UNAVAILABLE,
    UNKNOWN,
    UNSUPPORTED_PTX,
    CudaError,
)
from .fences import CudaFence, WaitingRoom
from .lane import Lane, Path
from .mappings import NAMESPACES, Mapping, Mappings
from .methods import Method

PROBE_BYTES = 64
_OTHER_KIND = -1
"""Begins the numbers of memory on GPUs, so that they are never those of a file."""

_NO_KERNEL = (
    "; the driver does not load the kernel that copies, for which it needs CUDA 11.8 and its PTX compiler: set cuda_copies to"
    " dma, and attach again"
)
HINTS = {
    **dict.fromkeys((NO_BINARY, INVALID_PTX, NO_JIT_COMPILER, UNSUPPORTED_PTX), _NO_KERNEL),
    OUT_OF_MEMORY: "; the daemon needs some hundred MB of the GPU for its context: leave it that much (in vLLM, by a"
    " lower gpu_memory_utilization), and attach again",
    UNAVAILABLE: "; it takes no context beside the engine's: set its compute mode to Default (nvidia-smi -c 0), and"
    " attach again",
}
"""What to do about an error of making the context, or anything in it."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CudaRegion:
    """Engine memory on a GPU that was mapped.

    Args:
        device: UUID of the GPU.
        size_bytes: length of the region.
        origin: which bytes of which allocation it is.
        address: where it begins here.
    """

    device: str
    size_bytes: int
    origin: Origin
    address: int


class Context:
    """Everything of one GPU that needs its context.

    Args:
        path: how copies get there.
        pinned: whether host memory is to be page-locked.
        pulse: told how the threads and the calls fare.

    Raises:
        CudaError: it cannot be made; nothing of it is left.
    """

    def __init__(self, path: Path, *, pinned: bool, pulse: Pulse) -> None:
        self._driver, self._path, self._pulse = path.driver, path, pulse
        self._mappings = Mappings(path.driver)
        self._regions: dict[Region, Mapping] = {}
        self._fences: set[CudaFence] = set()
        with ExitStack() as undo:
            path.copies.open()
            undo.callback(path.copies.close)
            self._tools = path.copies.make_tools()
            undo.callback(path.copies.destroy_tools, self._tools)
            self._page = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), dtype=np.uint8)
            if pinned:
                address = int(self._page.ctypes.data)
                path.driver.lock_pages(address, mmap.PAGESIZE)
                undo.callback(path.driver.unlock_pages, address)
            self._lanes: dict[Direction, Lane] = {}
            for direction in Direction:
                lane = Lane(path, direction, self._locate, pulse.failed, pulse.beat)
                undo.callback(lane.destroy)
                self._lanes[direction] = lane
            self._room = WaitingRoom(
                path.driver, path.gpu, pulse.beat(), self._pass_on, pulse.failed
            )
            self._undo = undo.pop_all()

    def open_region(self, handle: CudaHandle, session: int) -> CudaRegion:
        """See `Device.open_region`."""
        start, end = handle.offset_bytes, handle.offset_bytes + handle.size_bytes
        if start < 0 or handle.size_bytes < 1 or len(handle.allocation) != HANDLE_BYTES:
            raise DeviceError(
                f"offset_bytes {start} must be at least 0, size_bytes {handle.size_bytes} at least 1,"
                f" and the handle {HANDLE_BYTES} bytes, not {len(handle.allocation)}"
            )
        mapping = self._mappings.take(session, handle.allocation, end)
        try:
            self._probe(mapping.address + start, handle.size_bytes)
        except CudaError as error:
            self._mappings.give_back(mapping)
            if error.ends_context:
                raise
            raise DeviceError(
                f"the memory was mapped but cannot be read: {error}; {NAMESPACES}"
            ) from error
        memory = (_OTHER_KIND, self._path.gpu, mapping.number)
        origin = Origin(memory, start, end)
        region = CudaRegion(handle.gpu_uuid, handle.size_bytes, origin, mapping.address + start)
        self._regions[region] = mapping
        return region

    def close_region(self, region: Region) -> None:
        """See `Device.close_region`."""
        mapping = self._regions.pop(region, None)
        if mapping is None:
            raise DeviceError("the region is not open on this device")
        self._mappings.give_back(mapping)

    def open_fence(self, handle: CudaEventHandle) -> CudaFence:
        """See `Device.open_fence`."""
        if len(handle.event) != HANDLE_BYTES:
            raise DeviceError(
                f"the handle of an event has {HANDLE_BYTES} bytes, not {len(handle.event)}"
            )
        try:
            event = self._driver.open_event(handle.event)
        except CudaError as error:
            if error.ends_context and error.code != UNKNOWN:  # which may be said of a handle
                raise
            raise DeviceError(f"the event cannot be opened: {error}; {NAMESPACES}") from error
        fence = CudaFence(handle.gpu_uuid, event)
        self._fences.add(fence)
        return fence

    def close_fence(self, fence: CudaFence) -> None:
        """See `Device.close_fence`."""
        if fence not in self._fences:
            raise DeviceError("the fence is not open on this device")
        self._fences.remove(fence)
        self._driver.destroy_event(fence.event)

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`."""
        match copy.fence:
            case None:
                self._pass_on(copy)
            case CudaFence() as fence if fence in self._fences:
                self._room.enter(copy, fence.event)
            case _:
                refuse(copy, "its fence is not one that is open on its GPU")

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        return self._lanes[direction].copies.queue_depth(direction) + self._room.count(direction)

    @property
    def copies(self) -> Method:
        """How copies are made."""
        return self._path.copies.method

    def give_up(self, reason: str) -> None:
        """Fail what is not being copied, in the calling thread."""
        self._room.give_up(reason)
        for lane in self._lanes.values():
            lane.copies.give_up(reason)

    def stop(self, limit_s: float) -> bool:
        """End the threads after the pieces they are in; whether all did within `limit_s` seconds.

        For any thread, and may be repeated. If they did, nothing of the daemon touches the GPU any more.
        """
        until = time.monotonic() + limit_s
        closes = [self._room.close, *(lane.copies.close for lane in self._lanes.values())]
        for close in closes:  # all are told before any is waited for
            close(0.0)
        ended = [close(max(until - time.monotonic(), 0.0)) for close in closes]
        self._room.pass_all_on()
        return all(ended)

    def destroy(self) -> None:
        """Close what is still open; the threads have ended.

        Raises:
            CudaError: the driver refuses.
        """
        for region in list(self._regions):
            self.close_region(region)
        for fence in list(self._fences):
            self.close_fence(fence)
        self._undo.close()

    def _pass_on(self, copy: Copy) -> None:
        self._lanes[copy.direction].copies.submit(copy)

    def _locate(self, regions: Sequence[Region]) -> Sequence[int]:
        """Where opened regions begin."""
        found = []
        for region in regions:
            match region:
                case CudaRegion(address=address) if region in self._regions:
                    found.append(address)
                case _:
                    raise DeviceError("a region was closed before its copy began")
        return found

    def _probe(self, address: int, size_bytes: int) -> None:
        """Read the first and the last bytes of a region.

        Raises:
            CudaError: they cannot be read.
        """
        length = min(PROBE_BYTES, size_bytes)
        host = int(self._page.ctypes.data)
        batch = Batch(
            Direction.STORE,
            device=np.array([address, address + size_bytes - length], dtype=np.int64),
            host=np.array([host, host + PROBE_BYTES], dtype=np.int64),
            size=np.array([length, length], dtype=np.int64),
        )
        self._path.copies.copy(batch, self._lanes[Direction.STORE].stream, self._tools)
