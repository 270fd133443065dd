"""Files whose bytes are memory: which ones an engine may name, and how they are mapped.

A path comes from a client, and the daemon may be allowed to open more than the client. So only regular files on a file
system that lives in memory are taken; a load can then never write into anything that lasts.
"""

import ctypes
import mmap
import os
import re
import stat
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .base import DeviceError, Origin
from .handles import SharedMemoryHandle

MEMORY_FILE_SYSTEMS = "tmpfs, hugetlbfs or ramfs"
_MAGIC_NUMBERS = {0x01021994, 0x958458F6, 0x858458F6}
"""Theirs, in statfs(2). A memfd lies on one of the first two."""

_DESCRIPTOR = re.compile(r"/proc/\d+/fd/\d+")
_KINDS = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link"}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fstatfs.argtypes = (ctypes.c_int, ctypes.c_void_p)
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.mmap.restype = ctypes.c_void_p
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_FAILED = ctypes.c_void_p(-1).value


class _Mapping:
    """Mapped memory, for numpy to make an array of; unmapped when no array refers to it any more."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self._address, self._size_bytes = address, size_bytes

    @property
    def __array_interface__(self) -> dict[str, object]:
        return {
            "version": 3,
            "shape": (self._size_bytes,),
            "typestr": "|u1",
            "data": (self._address, False),
        }

    def __del__(self) -> None:
        _libc.munmap(self._address, self._size_bytes)


def map_shared(descriptor: int) -> npt.NDArray[np.uint8]:
    """Map a whole file for reading and writing; it stays mapped while the array or a view of it lives.

    `mmap.mmap` would keep a descriptor of its own open as long. Every process of the user could open the host pool by
    that descriptor's name under /proc, an engine could register it as its own memory, and each region would cost one.

    Raises:
        OSError: the kernel does not map it; an empty file, for one.
    """
    size_bytes = os.fstat(descriptor).st_size
    access = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, size_bytes, access, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    view = np.asarray(_Mapping(address, size_bytes))
    advise(view, mmap.MADV_DONTDUMP)  # a core file is for the daemon's mistakes, not for KV
    return view


def advise(view: npt.NDArray[np.uint8], advice: int) -> None:
    """Tell the kernel something about mapped memory that begins and ends with a page, see madvise(2).

    Raises:
        OSError: it does not take the advice.
    """
    if _libc.madvise(view.ctypes.data, view.size, advice) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def lies_in_memory(descriptor: int) -> bool:
    """Tell whether a file lies on a file system that keeps it in memory and nowhere else.

    Raises:
        OSError: the kernel does not say.
    """
    # struct statfs has at most 120 bytes; f_type is its first long.
    found = ctypes.create_string_buffer(256)
    if _libc.fstatfs(descriptor, found) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    kind = int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
    return kind & 0xFFFFFFFF in _MAGIC_NUMBERS


def map_file(handle: SharedMemoryHandle) -> tuple[npt.NDArray[np.uint8], Origin]:
    """Map the region that a handle names, and say which bytes it is; it stays mapped while the array lives.

    Raises:
        DeviceError: there is no such file, it is shorter than the region, or it is not one that may be mapped.
    """
    start, end = handle.offset_bytes, handle.offset_bytes + handle.size_bytes
    if start < 0 or handle.size_bytes < 1:
        raise DeviceError(
            f"{handle.path}: offset_bytes {start} must be at least 0"
            f" and size_bytes {handle.size_bytes} at least 1"
        )
    try:
        descriptor = _open_file(handle.path, handle.beneath)
        try:
            found = os.fstat(descriptor)
            if found.st_size < end:
                raise DeviceError(
                    f"{handle.path} has {found.st_size} bytes, the region ends at {end}"
                )
            # The whole file, because offsets into huge pages are restricted. It costs address space only.
            view = map_shared(descriptor)[start:end]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DeviceError(f"cannot map {handle.path}: {error.strerror}") from error
    if view.size < handle.size_bytes:
        raise DeviceError(f"{handle.path} became shorter while it was mapped")
    return view, Origin((found.st_dev, found.st_ino), start, end)


def _open_file(path: str, beneath: Path | None) -> int:
    """Open a file for reading and writing if it may be mapped.

    It is looked at before it is opened, because opening a device can have effects of its own.
    """
    if not path.startswith("/") or "\0" in path:
        raise DeviceError(f"{path!r} is not an absolute path")
    # The descriptors of a process are links that name what they stand for; any other could lead anywhere.
    follow = 0 if _DESCRIPTOR.fullmatch(path) else os.O_NOFOLLOW
    flags = os.O_PATH | os.O_CLOEXEC | follow
    found = os.open(path, flags) if beneath is None else _open_beneath(path, flags, beneath)
    try:
        mode = os.fstat(found).st_mode
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "a device, pipe or socket")
            raise DeviceError(f"{path} is {kind}, not a file in shared memory")
        if not lies_in_memory(found):
            raise DeviceError(f"{path} is on none of {MEMORY_FILE_SYSTEMS}, so it is no memory")
        return os.open(f"/proc/self/fd/{found}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(found)


def _open_beneath(path: str, flags: int, directory: Path) -> int:
    """Open a file that lies in a directory, and say of any other the same as of one that does not exist.

    Where it lies is asked of what was opened, so no link that is changed meanwhile matters.
    """
    refusal = DeviceError(f"there is no {path} in {directory}, where engine memory has to lie")
    try:
        found = os.open(path, flags)
    except OSError:
        raise refusal from None
    place = Path(os.readlink(f"/proc/self/fd/{found}"))
    if not place.is_relative_to(directory.resolve()):
        os.close(found)
        raise refusal
    return found
