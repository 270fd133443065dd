"""How engines name their memory and their fences to a device: plain values, whatever the device makes of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from kvstow.server.core.requests import RankMemory

HOST = "host"
"""The device that engines' memory in files belongs to, where others are named by the UUID of their GPU."""


@dataclass(frozen=True, slots=True)
class SharedMemoryHandle:
    """Engine memory that lives in a file both processes can open.

    Args:
        path: absolute path of the file; `/proc/PID/fd/N` names a descriptor of another process.
        offset_bytes: where the region starts in the file.
        size_bytes: length of the region.
        beneath: directory in which the file has to lie, whatever links lead there; None: anywhere.
    """

    path: str
    offset_bytes: int
    size_bytes: int
    beneath: Path | None = None

    @property
    def device(self) -> str:
        """Which device the memory is of."""
        return HOST


@dataclass(frozen=True, slots=True)
class CudaHandle:
    """Engine memory on a GPU, in an allocation that CUDA IPC exports.

    Args:
        gpu_uuid: of the GPU as CUDA knows it, as text in lower case without the prefix that `nvidia-smi` puts before
            it: `8-4-4-4-12` hexadecimal digits, also for a MIG instance.
        allocation: the 64 bytes of `cudaIpcMemHandle_t` of the whole allocation.
        offset_bytes: where the region starts in the allocation.
        size_bytes: length of the region.
    """

    gpu_uuid: str
    allocation: bytes
    offset_bytes: int
    size_bytes: int

    @property
    def device(self) -> str:
        """Which device the memory is of."""
        return self.gpu_uuid


Handle: TypeAlias = SharedMemoryHandle | CudaHandle
"""How a region is opened."""


@dataclass(frozen=True, slots=True)
class CudaEventHandle:
    """An event of an engine that other processes may ask for.

    Args:
        gpu_uuid: of the GPU whose work it marks; written as in `CudaHandle`.
        event: the 64 bytes of `cudaIpcEventHandle_t`.
    """

    gpu_uuid: str
    event: bytes

    @property
    def device(self) -> str:
        """Which device the event is of."""
        return self.gpu_uuid


RankHandles: TypeAlias = RankMemory[Handle, CudaEventHandle]
"""What a rank attaches."""
