"""The few calls of the CUDA driver that an engine needs to let another process at its memory.

The driver's own library is enough, whichever framework allocated the memory: no framework is imported, and none of its
internals are relied on. Nothing is decided here; see `ipc`. Any thread may call any method.

Facts are from the CUDA driver API reference: "Context Management", "Primary Context Management", "Unified Addressing",
"Memory Management" and "Event Management".
"""

import ctypes
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .closing import Closing
from .errors import KvstowError

LIBRARY = "libcuda.so.1"
HANDLE_BYTES = 64
"""Of both kinds of handle for other processes."""

INVALID_VALUE = 1
_ATTRIBUTE_LEGACY_IPC = 10  # CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
_EVENT_FLAGS = (
    0x2 | 0x4
)  # CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS: the one does not go without the other

_Handle = ctypes.c_ubyte * HANDLE_BYTES
_Uuid = ctypes.c_ubyte * 16

_PROTOTYPES: Mapping[str, Sequence[Any]] = {
    "cuInit": [c_uint],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetUuid_v2": [POINTER(_Uuid), c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuDevicePrimaryCtxRelease_v2": [c_int],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuPointerGetAttribute": [c_void_p, c_int, c_uint64],
    "cuMemGetAddressRange_v2": [POINTER(c_uint64), POINTER(c_size_t), c_uint64],
    "cuIpcGetMemHandle": [POINTER(_Handle), c_uint64],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuIpcGetEventHandle": [POINTER(_Handle), c_void_p],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventDestroy_v2": [c_void_p],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
}


class CudaError(KvstowError):
    """The driver refused a call, or is not there.

    Attributes:
        code: the driver's `CUresult`; 0 if there is no driver.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class LibCuda:
    """The driver.

    Args:
        path: of its library.

    Raises:
        CudaError: it is not there, is older than CUDA 11.4, or cannot be initialized.
    """

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            library = ctypes.CDLL(path)
            self._functions = {name: library[name] for name in _PROTOTYPES}
        except (OSError, AttributeError) as error:
            raise CudaError(f"the CUDA driver cannot be used: {error}") from None
        for name, arguments in _PROTOTYPES.items():
            self._functions[name].argtypes = arguments
            self._functions[name].restype = c_int
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Make one call.

        Raises:
            CudaError: it was refused.
        """
        code = self._functions[name](*arguments)
        if code:
            text = c_char_p()
            self._functions["cuGetErrorName"](code, ctypes.byref(text))
            known = text.value.decode() if text.value else f"error {code}"
            raise CudaError(f"{name}: {known}", code)


class PrimaryContext(Closing):
    """The context of one GPU that frameworks share in this process; it is kept until `close`.

    Args:
        cuda: the driver.
        ordinal: number of the GPU among those that this process sees.
    """

    def __init__(self, cuda: LibCuda, ordinal: int) -> None:
        self._cuda = cuda
        device = c_int()
        cuda.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self._device = device.value
        self._context = c_void_p()
        cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the calling thread's current one for the time of a block."""
        self._cuda.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._cuda.call("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

    def close(self) -> None:
        """Let go of it."""
        self._cuda.call("cuDevicePrimaryCtxRelease_v2", self._device)

    # The following need it to be current.

    def uuid(self) -> str:
        """The UUID of the GPU, or of the MIG instance."""
        raw = _Uuid()
        self._cuda.call("cuDeviceGetUuid_v2", ctypes.byref(raw), self._device)
        return str(uuid.UUID(bytes=bytes(raw)))

    def is_exportable(self, address: int) -> bool:
        """Whether the allocation at an address can be exported by a handle.

        Raises:
            CudaError: INVALID_VALUE: there is none.
        """
        capable = c_int()
        self._cuda.call(
            "cuPointerGetAttribute", ctypes.byref(capable), _ATTRIBUTE_LEGACY_IPC, address
        )
        return capable.value != 0

    def allocation(self, address: int) -> tuple[int, int]:
        """Where the allocation at an address begins, and how many bytes it has."""
        base, size_bytes = c_uint64(), c_size_t()
        self._cuda.call(
            "cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size_bytes), address
        )
        return base.value, size_bytes.value

    def memory_handle(self, base: int) -> bytes:
        """The handle of a whole allocation."""
        handle = _Handle()
        self._cuda.call("cuIpcGetMemHandle", ctypes.byref(handle), base)
        return bytes(handle)

    def create_event(self) -> c_void_p:
        """An event that other processes may ask for."""
        event = c_void_p()
        self._cuda.call("cuEventCreate", ctypes.byref(event), _EVENT_FLAGS)
        return event

    def event_handle(self, event: c_void_p) -> bytes:
        """The handle of such an event."""
        handle = _Handle()
        self._cuda.call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        return bytes(handle)

    def record(self, event: c_void_p, stream: int) -> None:
        """Let the event stand for all that a stream was told until now; 0 is the default stream."""
        self._cuda.call("cuEventRecord", event, stream)

    def destroy_event(self, event: c_void_p) -> None:
        """Give an event back."""
        self._cuda.call("cuEventDestroy_v2", event)
