"""The CUDA driver of this machine, called through ctypes: the one module that knows its functions.

Every call gives up the GIL, so that one that hangs stops one thread and not the daemon; there is nothing between the
daemon and the driver that would have to be installed, and one binding serves all versions. What is used of the driver has
been there since CUDA 11.4, except the copies in batches: those came with 12.8, changed their arguments in 13.0, where the
new form has a name of its own, and are looked for when the library is loaded.

How the functions look stands in `abi`.
"""

import ctypes
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvstow.server.core.spans import Offsets
from kvstow.server.device.base import DeviceError, Direction

from .abi import (
    BATCHES,
    EVENT_BLOCKING_SYNC,
    EVENT_DISABLE_TIMING,
    FUNCTIONS,
    HOST_POINTER_FOR_REGISTERED_MEMORY,
    HOST_REGISTER_DEVICEMAP,
    HOST_REGISTER_PORTABLE,
    IPC_LAZY_ENABLE_PEER_ACCESS,
    MEMORY_DEVICE,
    MEMORY_HOST,
    ORDER_ANY,
    ORDER_STREAM,
    PREFER_OVERLAP_WITH_COMPUTE,
    STREAM_NON_BLOCKING,
    Copy2D,
    CopyAttributes,
    IpcHandle,
    Side,
)
from .batches import Batch, Rows
from .driver import INVALID_VALUE, NOT_FOUND, NOT_READY, CudaError, GpuInfo

LIBRARY = "libcuda.so.1"

KERNEL, KERNEL_NAME = Path(__file__).with_name("gpu_kernel.ptx"), b"kvstow_copy"
KERNEL_BLOCKS, KERNEL_THREADS = 16, 256
"""Few blocks, so that the engine keeps most multiprocessors: of what they read, 256 KiB are on their way over the bus."""


class LibCuda:
    """The driver; see `Driver`.

    `use` is called first by one thread for each GPU, and by others only afterwards.

    Args:
        library: what to load.

    Raises:
        DeviceError: there is none, it is too old, or it sees no GPU; says why.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = library
        try:
            loaded = ctypes.CDLL(library)
            self._functions = {name: _bind(loaded, name, FUNCTIONS[name]) for name in FUNCTIONS}
        except (OSError, AttributeError) as error:
            raise DeviceError(f"the CUDA driver cannot be used: {error}") from error
        for name, types in BATCHES.items():
            try:
                self._functions[name] = _bind(loaded, name, types)
            except AttributeError:
                continue  # an older driver
        self._contexts: dict[int, ctypes.c_void_p] = {}
        self._kernels: dict[int, ctypes.c_void_p] = {}
        try:
            self._call("cuInit", 0)
            self._gpus = [self._gpu(number) for number in range(self._count())]
        except CudaError as error:
            raise DeviceError(f"the CUDA driver cannot be used: {error}") from error
        if not self._gpus:
            raise DeviceError("the CUDA driver sees no GPU")

    def gpus(self) -> Sequence[GpuInfo]:
        """See `Driver.gpus`."""
        return self._gpus

    def use(self, gpu: int) -> None:
        """See `Driver.use`."""
        context = self._contexts.get(gpu)
        if context is None:
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), gpu)
            self._contexts[gpu] = context
        self._call("cuCtxSetCurrent", context)

    def release(self, gpu: int) -> None:
        """See `Driver.release`."""
        if self._contexts.pop(gpu, None) is not None:
            self._call("cuDevicePrimaryCtxRelease_v2", gpu)

    def takes_batches(self, gpu: int) -> bool:
        """See `Driver.takes_batches`: the batches name locked memory by its host address, which not all GPUs take."""
        known = any(name in self._functions for name in BATCHES)
        return known and self.reaches_locked_memory(gpu)

    def reaches_locked_memory(self, gpu: int) -> bool:
        """See `Driver.reaches_locked_memory`."""
        found = ctypes.c_int()
        attribute = HOST_POINTER_FOR_REGISTERED_MEMORY
        self._call("cuDeviceGetAttribute", ctypes.byref(found), attribute, gpu)
        return bool(found.value)

    def load_kernel(self) -> int:
        """See `Driver.load_kernel`; the driver compiles it for its GPU, and keeps what came out."""
        module = self._create("cuModuleLoadData", KERNEL.read_bytes() + b"\0")
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, KERNEL_NAME)
        self._kernels[module] = function
        return module

    def unload_kernel(self, kernel: int) -> None:
        """See `Driver.unload_kernel`."""
        del self._kernels[kernel]
        self._call("cuModuleUnload", kernel)

    def run_kernel(self, kernel: int, orders: int, count: int, stream: int) -> None:
        """See `Driver.run_kernel`."""
        given = ctypes.c_uint64(orders), ctypes.c_uint(count)
        pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(one) for one in given))
        grid = min(count, KERNEL_BLOCKS), 1, 1
        shape = (*grid, KERNEL_THREADS, 1, 1)
        self._call("cuLaunchKernel", self._kernels[kernel], *shape, 0, stream, pointers, None)

    def open_memory(self, handle: bytes) -> int:
        """See `Driver.open_memory`."""
        address = ctypes.c_uint64()
        named = IpcHandle.from_buffer_copy(handle)
        flags = IPC_LAZY_ENABLE_PEER_ACCESS
        self._call("cuIpcOpenMemHandle_v2", ctypes.byref(address), named, flags)
        return address.value

    def close_memory(self, address: int) -> None:
        """See `Driver.close_memory`."""
        self._call("cuIpcCloseMemHandle", address)

    def memory_bytes(self, address: int) -> int | None:
        """See `Driver.memory_bytes`."""
        start, size = ctypes.c_uint64(), ctypes.c_size_t()
        try:
            self._call("cuMemGetAddressRange_v2", ctypes.byref(start), ctypes.byref(size), address)
        except CudaError as error:
            if error.code in (INVALID_VALUE, NOT_FOUND):
                return None
            raise
        return start.value + size.value - address

    def create_stream(self) -> int:
        """See `Driver.create_stream`."""
        return self._create("cuStreamCreate", STREAM_NON_BLOCKING)

    def destroy_stream(self, stream: int) -> None:
        """See `Driver.destroy_stream`."""
        self._call("cuStreamDestroy_v2", stream)

    def wait_stream(self, stream: int) -> None:
        """See `Driver.wait_stream`."""
        self._call("cuStreamSynchronize", stream)

    def copy_batch(self, batch: Batch, stream: int) -> None:
        """See `Driver.copy_batch`."""
        order = ORDER_STREAM if batch.direction is Direction.STORE else ORDER_ANY
        attributes = CopyAttributes(source_order=order, flags=PREFER_OVERLAP_WITH_COMPUTE)
        first = ctypes.c_size_t(0)  # all copies have these attributes
        refused = ctypes.c_size_t()
        arguments = (
            _data(batch.targets),
            _data(batch.sources),
            _data(batch.size),
            len(batch),
            ctypes.byref(attributes),
            ctypes.byref(first),
            1,
        )
        if "cuMemcpyBatchAsync_v2" in self._functions:
            self._call("cuMemcpyBatchAsync_v2", *arguments, stream)
        else:
            self._call("cuMemcpyBatchAsync", *arguments, ctypes.byref(refused), stream)

    def copy_rows(self, rows: Rows, stream: int) -> None:
        """See `Driver.copy_rows`."""
        columns = (rows.device, rows.host, rows.device_pitch, rows.host_pitch)
        numbers = [column.tolist() for column in (*columns, rows.width, rows.height)]
        for device, host, pitch, host_pitch, width, height in zip(*numbers, strict=True):
            if height == 1 and rows.direction is Direction.STORE:
                self._call("cuMemcpyDtoHAsync_v2", host, device, width, stream)
            elif height == 1:
                self._call("cuMemcpyHtoDAsync_v2", device, host, width, stream)
            else:
                there = Side(memory_type=MEMORY_DEVICE, device=device, pitch=pitch)
                here = Side(memory_type=MEMORY_HOST, host=host, pitch=host_pitch)
                store = rows.direction is Direction.STORE
                sides = (there, here) if store else (here, there)
                self._call(
                    "cuMemcpy2DAsync_v2", ctypes.byref(Copy2D(*sides, width, height)), stream
                )

    def create_event(self) -> int:
        """See `Driver.create_event`."""
        return self._create("cuEventCreate", EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING)

    def destroy_event(self, event: int) -> None:
        """See `Driver.destroy_event`."""
        self._call("cuEventDestroy_v2", event)

    def record_event(self, event: int, stream: int) -> None:
        """See `Driver.record_event`."""
        self._call("cuEventRecord", event, stream)

    def wait_event(self, event: int) -> None:
        """See `Driver.wait_event`."""
        self._call("cuEventSynchronize", event)

    def open_event(self, handle: bytes) -> int:
        """See `Driver.open_event`."""
        return self._create("cuIpcOpenEventHandle", IpcHandle.from_buffer_copy(handle))

    def event_reached(self, event: int) -> bool:
        """See `Driver.event_reached`."""
        try:
            self._call("cuEventQuery", event)
        except CudaError as error:
            if error.code == NOT_READY:
                return False
            raise
        return True

    def lock_pages(self, address: int, size_bytes: int) -> None:
        """See `Driver.lock_pages`."""
        flags = HOST_REGISTER_PORTABLE | HOST_REGISTER_DEVICEMAP
        self._call("cuMemHostRegister_v2", address, size_bytes, flags)

    def unlock_pages(self, address: int) -> None:
        """See `Driver.unlock_pages`."""
        self._call("cuMemHostUnregister", address)

    def _call(self, name: str, *arguments: object) -> None:
        code = self._functions[name](*arguments)
        if code:
            raise CudaError(code, self._name_of(code), name)

    def _name_of(self, code: int) -> str:
        name = ctypes.c_char_p()
        unknown = self._functions["cuGetErrorName"](code, ctypes.byref(name))
        return "an error without a name" if unknown or not name.value else name.value.decode()

    def _create(self, name: str, *arguments: object) -> int:
        """Make something that is named by a pointer."""
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        assert made.value is not None, f"{name} made nothing"
        return made.value

    def _count(self) -> int:
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def _gpu(self, number: int) -> GpuInfo:
        """Examine the GPU that comes at this place in the driver's count."""
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), number)
        identity, name = (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(256)
        self._call("cuDeviceGetUuid_v2", ctypes.byref(identity), device)
        self._call("cuDeviceGetName", name, len(name), device)
        return GpuInfo(device.value, str(uuid.UUID(bytes=bytes(identity))), name.value.decode())


def _bind(library: ctypes.CDLL, name: str, types: tuple[Any, ...]) -> "ctypes._NamedFuncPointer":
    function = library[name]
    function.argtypes = types
    function.restype = ctypes.c_int
    return function


def _data(numbers: Offsets) -> int:
    """Where an array lies; the driver wants 8 bytes each, one after the other."""
    assert numbers.dtype == np.int64, numbers.dtype
    assert numbers.flags.c_contiguous, "an array with gaps"
    return int(numbers.ctypes.data)
