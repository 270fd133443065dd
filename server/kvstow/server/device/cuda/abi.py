"""What `cuda.h` says of the functions, structures and numbers that `libcuda` uses."""

# mypy: disable-error-code="mutable-override"
# The fields of a `Structure` are said by overriding them.

import ctypes
from typing import Any

from .driver import HANDLE_BYTES

EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING = 1, 2
STREAM_NON_BLOCKING = 1
HOST_REGISTER_PORTABLE, HOST_REGISTER_DEVICEMAP = 1, 2
IPC_LAZY_ENABLE_PEER_ACCESS = 1
HOST_POINTER_FOR_REGISTERED_MEMORY = 91
MEMORY_HOST, MEMORY_DEVICE = 1, 2
ORDER_STREAM, ORDER_ANY = 1, 3
PREFER_OVERLAP_WITH_COMPUTE = 1


class IpcHandle(ctypes.Structure):
    """`CUipcMemHandle` and `CUipcEventHandle`, which are passed by value."""

    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class Location(ctypes.Structure):
    """`CUmemLocation`."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class CopyAttributes(ctypes.Structure):
    """`CUmemcpyAttributes`; the hints are for memory of other kinds than ours."""

    _fields_ = [
        ("source_order", ctypes.c_int),
        ("source_hint", Location),
        ("target_hint", Location),
        ("flags", ctypes.c_uint),
    ]


class Side(ctypes.Structure):
    """One half of `CUDA_MEMCPY2D`."""

    _fields_ = [
        ("x_bytes", ctypes.c_size_t),
        ("y", ctypes.c_size_t),
        ("memory_type", ctypes.c_int),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
    ]


class Copy2D(ctypes.Structure):
    """`CUDA_MEMCPY2D`."""

    _fields_ = [
        ("source", Side),
        ("target", Side),
        ("width_bytes", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


_INT, _UINT, _SIZE = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_POINTER, _ADDRESS = ctypes.c_void_p, ctypes.c_uint64
_BATCH = (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER, _SIZE)

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_UINT,),
    "cuGetErrorName": (_INT, _POINTER),
    "cuDeviceGetCount": (_POINTER,),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetName": (_POINTER, _INT, _INT),
    "cuDeviceGetUuid_v2": (_POINTER, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuDevicePrimaryCtxRelease_v2": (_INT,),
    "cuCtxSetCurrent": (_POINTER,),
    "cuModuleLoadData": (_POINTER, _POINTER),
    "cuModuleGetFunction": (_POINTER, _POINTER, ctypes.c_char_p),
    "cuModuleUnload": (_POINTER,),
    "cuLaunchKernel": (_POINTER, *(_UINT,) * 7, _POINTER, _POINTER, _POINTER),
    "cuIpcOpenMemHandle_v2": (_POINTER, IpcHandle, _UINT),
    "cuIpcCloseMemHandle": (_ADDRESS,),
    "cuIpcOpenEventHandle": (_POINTER, IpcHandle),
    "cuMemGetAddressRange_v2": (_POINTER, _POINTER, _ADDRESS),
    "cuMemHostRegister_v2": (_POINTER, _SIZE, _UINT),
    "cuMemHostUnregister": (_POINTER,),
    "cuStreamCreate": (_POINTER, _UINT),
    "cuStreamDestroy_v2": (_POINTER,),
    "cuStreamSynchronize": (_POINTER,),
    "cuEventCreate": (_POINTER, _UINT),
    "cuEventDestroy_v2": (_POINTER,),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventQuery": (_POINTER,),
    "cuEventSynchronize": (_POINTER,),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _ADDRESS, _SIZE, _POINTER),
    "cuMemcpyHtoDAsync_v2": (_ADDRESS, _POINTER, _SIZE, _POINTER),
    "cuMemcpy2DAsync_v2": (_POINTER, _POINTER),
}
BATCHES: dict[str, tuple[Any, ...]] = {
    "cuMemcpyBatchAsync_v2": (*_BATCH, _POINTER),
    "cuMemcpyBatchAsync": (*_BATCH, _POINTER, _POINTER),  # says which copy it refuses
}
