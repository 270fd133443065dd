"""Several devices as one: each copy and each piece of memory goes to the device that it belongs to.

Decided here: which device that is, and what is said when it is not there. Any thread may call any method.
"""

from collections.abc import Sequence

from .base import (
    CLOSE_S,
    Copy,
    CudaOffError,
    Device,
    DeviceError,
    DeviceHealth,
    Direction,
    Fence,
    Region,
)
from .cuda.context import CudaRegion
from .handles import CudaEventHandle, CudaHandle, Handle, SharedMemoryHandle
from .streams import refuse


class Devices:
    """Host memory, and the GPUs if there are any.

    Args:
        host: for memory in files.
        cuda: for memory on GPUs.
    """

    def __init__(self, host: Device, cuda: Device) -> None:
        self._host = host
        self._cuda = cuda

    def open_region(self, handle: Handle, session: int) -> Region:
        """See `Device.open_region`."""
        match handle:
            case SharedMemoryHandle():
                return self._host.open_region(handle, session)
            case CudaHandle():
                return self._cuda.open_region(handle, session)

    def close_region(self, region: Region) -> None:
        """See `Device.close_region`."""
        self._of(region).close_region(region)

    def open_fence(self, handle: CudaEventHandle, session: int) -> Fence:
        """See `Device.open_fence`."""
        return self._cuda.open_fence(handle, session)

    def close_fence(self, fence: Fence) -> None:
        """See `Device.close_fence`."""
        self._cuda.close_fence(fence)

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`; the regions of a copy are of one device."""
        self._of(copy.regions[0]).submit(copy)

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        return self._host.queue_depth(direction) + self._cuda.queue_depth(direction)

    def health(self) -> Sequence[DeviceHealth]:
        """See `Device.health`."""
        return [*self._host.health(), *self._cuda.health()]

    def close(self, limit_s: float = CLOSE_S) -> None:
        """See `Device.close`."""
        self._cuda.close(limit_s)
        self._host.close()

    def _of(self, region: Region) -> Device:
        match region:
            case CudaRegion():
                return self._cuda
            case _:
                return self._host


class NoCuda:
    """Stands for the GPUs of a daemon that runs without CUDA.

    Args:
        reason: why it does.
    """

    def __init__(self, reason: str) -> None:
        self._reason = f"the daemon runs without CUDA: {reason}"

    def open_region(self, handle: Handle, session: int) -> Region:
        """Refuse."""
        raise CudaOffError(self._reason)

    def close_region(self, region: Region) -> None:
        """Refuse: none was opened."""
        raise DeviceError(self._reason)

    def open_fence(self, handle: CudaEventHandle, session: int) -> Fence:
        """Refuse."""
        raise CudaOffError(self._reason)

    def close_fence(self, fence: Fence) -> None:
        """Refuse: none was opened."""
        raise DeviceError(self._reason)

    def submit(self, copy: Copy) -> None:
        """Fail the copy."""
        refuse(copy, self._reason)

    def queue_depth(self, direction: Direction) -> int:
        """None waits."""
        return 0

    def health(self) -> Sequence[DeviceHealth]:
        """There is nothing to be healthy."""
        return ()

    def close(self, limit_s: float = CLOSE_S) -> None:
        """There is nothing to close."""
