"""Engines on GPUs: their memory and their fences, as an attach names them.

Tensors are cut from larger allocations, and only a whole allocation can be exported; a region is the handle of the whole
and where in it the tensor lies. A fence is an event that other processes may ask for: it is recorded behind the work that
writes blocks, or that last uses them, and the daemon's copy waits until the GPU has come so far.

Not a part of `kvstow.client` itself, so that engines without a GPU never touch the driver: `from kvstow.client import ipc`.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from ctypes import c_void_p
from functools import lru_cache
from typing import Protocol

from kvstow.v1 import cache_pb2

from .closing import Closing
from .errors import KvstowError
from .libcuda import INVALID_VALUE, CudaError, LibCuda, PrimaryContext

NOT_EXPORTABLE = (
    "it comes from the virtual-memory API or from a memory pool: with torch, take expandable_segments:True and"
    " backend:cudaMallocAsync out of PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF); with vLLM, turn its sleep mode off"
)


class CannotExport(KvstowError):
    """Memory that no other process can be let at; the message says what to change."""


class Tensor(Protocol):
    """What is asked of a tensor; those of torch answer."""

    def get_device(self) -> int:
        """Number of its GPU; -1 for the CPU."""
        ...

    def data_ptr(self) -> int:
        """Address of its first element."""
        ...

    def size(self) -> Sequence[int]:
        """Elements in each dimension."""
        ...

    def stride(self) -> Sequence[int]:
        """Elements from one to the next in each dimension; none is negative."""
        ...

    def element_size(self) -> int:
        """Bytes of an element."""
        ...


@lru_cache(1)
def driver() -> LibCuda:
    """The driver of this machine.

    Raises:
        CudaError: there is none.
    """
    return LibCuda()


def region_of(tensor: Tensor, cuda: LibCuda | None = None) -> cache_pb2.Region:
    """The bytes from the first to the last element of a tensor, gaps between them included.

    Offset 0 of the region is where the tensor's first element lies.

    Args:
        tensor: must keep its memory as long as a session has it attached.
        cuda: the driver, instead of this machine's.

    Raises:
        CannotExport, CudaError: see `region`.
        ValueError: it has no elements, or is not on a GPU.
    """
    sizes = tensor.size()
    if tensor.get_device() < 0 or 0 in sizes:
        raise ValueError("the tensor has no elements, or is not on a GPU")
    last = sum((size - 1) * step for size, step in zip(sizes, tensor.stride(), strict=True))
    size_bytes = (last + 1) * tensor.element_size()
    return region(tensor.get_device(), tensor.data_ptr(), size_bytes, cuda)


def region(
    ordinal: int, address: int, size_bytes: int, cuda: LibCuda | None = None
) -> cache_pb2.Region:
    """Memory of a GPU, as an attach names it.

    Args:
        ordinal: number of the GPU among those that this process sees.
        address: where the region begins; anywhere in an allocation.
        size_bytes: its length; it ends within the same allocation.
        cuda: the driver, instead of this machine's.

    Raises:
        CannotExport: the memory is none of a GPU, or such as cannot be exported.
        CudaError: the driver refuses for another reason.
    """
    cuda = cuda or driver()
    with PrimaryContext(cuda, ordinal) as context, context.current():
        _check_exportable(context, address)
        base, allocated_bytes = context.allocation(address)
        if address + size_bytes > base + allocated_bytes:
            raise CannotExport(
                f"{size_bytes} bytes at {address:#x} are not in one allocation: that at {base:#x} has"
                f" {allocated_bytes} bytes"
            )
        memory = cache_pb2.CudaMemory(
            gpu_uuid=context.uuid(),
            allocation=context.memory_handle(base),
            offset_bytes=address - base,
            size_bytes=size_bytes,
        )
    return cache_pb2.Region(cuda_memory=memory)


class FenceRing(Closing):
    """The fences of one rank, for `Session.attach` or `RemoteRank`.

    Which of them is free, the process that sends the transfers knows; see `FenceSlots`. A fence must not be recorded
    again before the transfer that names it has ended. Any thread may record.

    Args:
        ordinal: number of the rank's GPU among those that this process sees.
        count: how many.
        cuda: the driver, instead of this machine's.

    Attributes:
        fences: as an attach names them.

    Raises:
        CudaError: the driver refuses.
    """

    def __init__(self, ordinal: int, count: int, cuda: LibCuda | None = None) -> None:
        self._events: list[c_void_p] = []
        with ExitStack() as undo:
            self._context = undo.enter_context(PrimaryContext(cuda or driver(), ordinal))
            undo.callback(self._destroy)
            with self._context.current():
                gpu_uuid = self._context.uuid()
                for _ in range(count):
                    self._events.append(self._context.create_event())
                handles = [self._context.event_handle(event) for event in self._events]
            self._undo = undo.pop_all()
        self.fences = [cache_pb2.CudaEvent(gpu_uuid=gpu_uuid, event=handle) for handle in handles]

    def record(self, slot: int, stream: int = 0) -> None:
        """Let a fence stand for everything that a stream was told to do until now.

        Args:
            slot: which fence; the transfer names it by this number.
            stream: the stream's handle (of torch's: `stream.cuda_stream`); 0 for the default stream. Not while it is being
                captured into a graph.

        Raises:
            CudaError: the driver refuses.
        """
        with self._context.current():
            self._context.record(self._events[slot], stream)

    def close(self) -> None:
        """Destroy them, once the rank is detached: the daemon has them open until then. May be repeated."""
        self._undo.close()

    def _destroy(self) -> None:
        with self._context.current():
            while self._events:
                self._context.destroy_event(self._events.pop())


def _check_exportable(context: PrimaryContext, address: int) -> None:
    try:
        exportable = context.is_exportable(address)
    except CudaError as error:
        if error.code != INVALID_VALUE:
            raise
        raise CannotExport(f"there is no memory of a GPU at {address:#x}") from error
    if not exportable:
        raise CannotExport(f"the memory at {address:#x} cannot be exported: {NOT_EXPORTABLE}")
