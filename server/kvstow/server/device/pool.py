"""The host pool: one piece of shared memory, allocated and faulted in before the first copy.

Decided here: what backs the pool, whether it fits, how it is faulted in. Not decided here: what lies where in it (the
ledger), and page-locking for a GPU (its device). One thread makes the pool, populates it and closes it; the bytes
belong to whoever the ledger gave their slots to.

The file behind the pool has no name and no descriptor once it is mapped: a killed daemon leaves nothing behind, and nobody
else can open it.
"""

import contextlib
import errno
import mmap
import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from .base import DeviceError
from .files import MEMORY_FILE_SYSTEMS, advise, lies_in_memory, map_shared
from .kernel import Memory
from .limits import Bound, file_bounds, readable

MADV_POPULATE_WRITE = 23  # Linux 5.14; not yet in `mmap`
POPULATE_BYTES = 64 << 20
"""What one thread faults in between two reports of progress."""


class HostPool:
    """Shared memory of a fixed size.

    Args:
        size_bytes: size of the pool.
        directory: a mount of tmpfs or hugetlbfs to take the memory from; None: an anonymous file (memfd).

    Raises:
        DeviceError: it does not fit, or the directory cannot be used.
    """

    def __init__(self, size_bytes: int, directory: Path | None = None) -> None:
        self.size_bytes = size_bytes
        place = "anonymous memory" if directory is None else str(directory)
        try:
            check_directory(directory)
            _check_fit(size_bytes, file_bounds(directory))
            view = _map(size_bytes, directory)
        except OSError as error:
            raise DeviceError(
                f"cannot take a host pool of {readable(size_bytes)} from {place}: {error.strerror}"
            ) from error
        self._mapped_bytes = len(view)
        self.memory = Memory.of(view[:size_bytes])

    def populate(self, progress: Callable[[int], None], thread_count: int) -> None:
        """Fault all pages in, so that no copy has to and no memory is missing later.

        Args:
            progress: told in this thread how many bytes are done; what it raises ends the work.
            thread_count: threads that fault pages in.

        Raises:
            DeviceError: the kernel could not provide the memory.
        """
        starts = range(0, self._mapped_bytes, POPULATE_BYTES)
        executor = ThreadPoolExecutor(thread_count, thread_name_prefix="populate")
        try:
            for start, _ in zip(starts, executor.map(self._populate, starts), strict=True):
                progress(min(start + POPULATE_BYTES, self.size_bytes))
        finally:
            executor.shutdown(cancel_futures=True)

    def _populate(self, start: int) -> None:
        length = min(POPULATE_BYTES, self._mapped_bytes - start)
        try:
            advise(self.memory.view[start : start + length], MADV_POPULATE_WRITE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise DeviceError(
                    f"cannot fault in the host pool of {readable(self.size_bytes)} beyond"
                    f" {readable(start)}: {error.strerror}; lower pool_size"
                ) from error
            touch(self.memory, start, length)

    def zero(self, pieces: Iterable[range]) -> None:
        """Zero pieces of the pool, given by their bytes, without the GIL. Nothing else may use them meanwhile."""
        view = self.memory.view
        for piece in pieces:
            view[piece.start : piece.stop] = 0

    def huge_page_bytes(self) -> int:
        """How much of the pool lies in huge pages, as the kernel says now."""
        kib, inside = 0, False
        with open("/proc/self/smaps", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, rest = line.partition(":")
                if " " in name:  # the first line of a mapping
                    inside = name.startswith(f"{self.memory.address:x}-")
                elif inside and name in ("ShmemPmdMapped", "Shared_Hugetlb", "Private_Hugetlb"):
                    kib += int(rest.split()[0])
        return kib * 1024

    def close(self) -> None:
        """Give the memory back. It is unmapped when the last copy that touches it has let go of it."""
        self.memory = Memory.of(np.empty(0, dtype=np.uint8))


def touch(memory: Memory, start: int, length: int) -> None:
    """Fault pages in by writing to each, for kernels that cannot be asked to. The memory holds nothing yet."""
    memory.view[start : start + length : mmap.PAGESIZE] = 0


def _map(size_bytes: int, directory: Path | None) -> npt.NDArray[np.uint8]:
    """Map a new file of this size, rounded up to the page size of its mount, with huge pages if they may be had."""
    with _new_file(directory) as file:
        page_bytes = os.fstat(file.fileno()).st_blksize
        os.ftruncate(file.fileno(), -(-size_bytes // page_bytes) * page_bytes)
        view = map_shared(file.fileno())
    with contextlib.suppress(OSError):  # a kernel without them, or pages that are huge anyway
        advise(view, mmap.MADV_HUGEPAGE)
    return view


def _new_file(directory: Path | None) -> IO[bytes]:
    if directory is None:
        return open(os.memfd_create("kvstow-pool"), "w+b")
    # Nameless from the start, or unlinked at once where the mount cannot do that; mode 0600.
    return tempfile.TemporaryFile(prefix="kvstow-", dir=directory)


def check_directory(directory: Path | None) -> None:
    """Refuse a directory whose files are not kept in memory.

    Raises:
        DeviceError: they are kept elsewhere.
        OSError: the directory cannot be examined.
    """
    if directory is None:
        return
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not lies_in_memory(descriptor):
            raise DeviceError(
                f"{directory} is on none of {MEMORY_FILE_SYSTEMS}, so a pool there is no memory;"
                " name a directory that is (/dev/shm, say), or leave pool_path out"
            )
    finally:
        os.close(descriptor)


def check_capacity(size_bytes: int, directory: Path | None = None) -> None:
    """Refuse a pool that could not be had even if nobody else had any memory. It takes none itself.

    Args:
        size_bytes: size of the pool.
        directory: where it would be taken from; None: anonymous memory.

    Raises:
        DeviceError: there is less memory.
        OSError: the directory cannot be examined.
    """
    less = [bound for bound in file_bounds(directory) if bound.total_bytes < size_bytes]
    if less:
        found = "; ".join(f"{bound.whole} is {readable(bound.total_bytes)}" for bound in less)
        raise DeviceError(f"{readable(size_bytes)} are more than there is: {found}")


def _check_fit(size_bytes: int, bounds: Iterable[Bound]) -> None:
    tight = [bound for bound in bounds if bound.free_bytes < size_bytes]
    if tight:
        found = "; ".join(
            f"{b.source} leaves {readable(b.free_bytes)} ({b.remedy})" for b in tight
        )
        raise DeviceError(
            f"a host pool of {readable(size_bytes)} does not fit: {found}; or lower pool_size"
        )
