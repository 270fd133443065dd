"""What is asked of the CUDA driver: the calls that the device makes, with plain numbers, bytes and arrays.

Decided here: names, meaning, and which errors end a context. `libcuda` makes the calls; tests have a model that makes
none and is stricter. A call acts on the GPU that `use` made current in the calling thread, `gpus` and `release` apart; it
may hang as long as the hardware does, so no thread that others wait for without a limit may make one.

Handles, addresses, streams and events are numbers that mean something to the driver that gave them out and to no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .batches import Batch, Rows

HANDLE_BYTES = 64
"""Size of `CUipcMemHandle` and of `CUipcEventHandle`."""

INVALID_VALUE = 1
OUT_OF_MEMORY = 2
UNAVAILABLE = 46
INVALID_CONTEXT = 201
NO_BINARY = 209
MAP_FAILED = 205
INVALID_PTX = 218
NO_JIT_COMPILER = 221
UNSUPPORTED_PTX = 222
OPERATING_SYSTEM = 304
INVALID_HANDLE = 400
NOT_FOUND = 500
NOT_READY = 600
NOT_SUPPORTED = 801
UNKNOWN = 999

_LOST = {214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 810, UNKNOWN}
"""Uncorrectable errors of memory and NVLink, contained or not; faults of the GPU's own programs and addresses; the end of a
client by the MPS server; unknown. After these every call in the context fails (CUDA driver API, `CUresult`)."""


class CudaError(Exception):
    """The driver refused a call.

    Args:
        code: its `CUresult`.
        name: name of the code.
        call: which call it was.
    """

    def __init__(self, code: int, name: str, call: str) -> None:
        super().__init__(f"{call} says {name} ({code})")
        self.code = code

    @property
    def ends_context(self) -> bool:
        """Whether nothing can be done with the GPU any more until the process is started again."""
        return self.code in _LOST


@dataclass(frozen=True, slots=True)
class GpuInfo:
    """A GPU, or an instance of one under MIG, that this process sees.

    Args:
        number: what the driver calls it in this process.
        uuid: as in `CudaHandle`.
        name: of the product.
    """

    number: int
    uuid: str
    name: str


class Driver(Protocol):
    """The calls. All but `gpus` may raise a `CudaError`."""

    def gpus(self) -> Sequence[GpuInfo]:
        """The GPUs that this process sees; makes no context."""
        ...

    def use(self, gpu: int) -> None:
        """Make a GPU current in the calling thread; the first call makes its context, which takes long and memory."""
        ...

    def release(self, gpu: int) -> None:
        """Give the context of a GPU up."""
        ...

    def reaches_locked_memory(self, gpu: int) -> bool:
        """Whether a GPU has page-locked memory at its addresses in the host."""
        ...

    def load_kernel(self) -> int:
        """Load the kernel that copies."""
        ...

    def unload_kernel(self, kernel: int) -> None:
        """Give it back; it runs nowhere any more."""
        ...

    def run_kernel(self, kernel: int, orders: int, count: int, stream: int) -> None:
        """Queue a run of the kernel on a stream.

        Args:
            kernel: as it was loaded.
            orders: address of page-locked memory that holds so many addresses to copy from, then as many to copy to, then
                as many lengths, 8 bytes each; to stay as it is until the run has ended.
            count: see there.
            stream: which.
        """
        ...

    def takes_batches(self, gpu: int) -> bool:
        """Whether `copy_batch` can be used with page-locked memory."""
        ...

    def open_memory(self, handle: bytes) -> int:
        """Map an allocation of another process; returns its address here."""
        ...

    def close_memory(self, address: int) -> None:
        """Unmap what `open_memory` returned."""
        ...

    def memory_bytes(self, address: int) -> int | None:
        """Size of an opened allocation; None if the driver does not tell it of imported memory."""
        ...

    def create_stream(self) -> int:
        """Make a stream whose work waits for no other stream's."""
        ...

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream on which nothing is left to do."""
        ...

    def wait_stream(self, stream: int) -> None:
        """Wait until all work on a stream is done."""
        ...

    def copy_batch(self, batch: Batch, stream: int) -> None:
        """Queue copies on a stream; among themselves they have no order.

        Sources in host memory may be read from the call on, those on the GPU are read in the order of the stream.
        """
        ...

    def copy_rows(self, rows: Rows, stream: int) -> None:
        """Queue copies of rows of equal distance on a stream, one after the other."""
        ...

    def create_event(self) -> int:
        """Make an event for this process; waiting for it does not spin."""
        ...

    def destroy_event(self, event: int) -> None:
        """Destroy an event that was made or opened here."""
        ...

    def record_event(self, event: int, stream: int) -> None:
        """Let an event stand for the work that is on a stream now."""
        ...

    def wait_event(self, event: int) -> None:
        """Wait until what an event stands for is done."""
        ...

    def open_event(self, handle: bytes) -> int:
        """Open an event of another process."""
        ...

    def event_reached(self, event: int) -> bool:
        """Whether what an event stands for is done; does not wait."""
        ...

    def lock_pages(self, address: int, size_bytes: int) -> None:
        """Page-lock host memory for all contexts."""
        ...

    def unlock_pages(self, address: int) -> None:
        """Undo `lock_pages`; nothing copies from or to the memory any more."""
        ...
