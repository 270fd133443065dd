"""Page-locks the host pool for the GPUs, in chunks.

One call for a large pool takes long, and other processes' CUDA calls wait behind it; between two chunks they get their
turn, progress can be told, and a signal is obeyed. A copy must not cross from one chunk to the next (see `batches`).
"""

import resource
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from kvstow.server.device.base import DeviceError
from kvstow.server.device.kernel import Memory
from kvstow.server.device.limits import available, readable

from .driver import CudaError

CHUNK_BYTES = 256 << 20


class PageLocks(Protocol):
    """Makes the calls, on a thread and in a context that may."""

    def lock_pages(self, address: int, size_bytes: int, ask: Callable[[], None]) -> None:
        """See `Driver.lock_pages`; meanwhile `ask` is called now and then, and what it raises ends the waiting."""
        ...

    def unlock_pages(self, addresses: Sequence[int], limit_s: float) -> None:
        """See `Driver.unlock_pages`, for several; waits no longer than `limit_s` seconds."""
        ...


class PinnedPool:
    """The chunks of the host pool that are page-locked. For one thread at a time.

    Args:
        memory: the pool's.
        chunk_bytes: size of a chunk, whole pages.
    """

    def __init__(self, memory: Memory, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._memory = memory
        self._chunk_bytes = chunk_bytes
        self._locked: list[int] = []

    def lock(self, locks: PageLocks, progress: Callable[[int], None]) -> None:
        """Page-lock everything.

        Args:
            locks: makes the calls.
            progress: told how many bytes are done, also while a chunk takes long; what it raises ends the work.

        Raises:
            DeviceError: the driver refused; says what there is and what to do.
        """
        start, size_bytes = self._memory.address, self._memory.view.size
        for offset in range(0, size_bytes, self._chunk_bytes):
            length = min(self._chunk_bytes, size_bytes - offset)
            try:
                locks.lock_pages(start + offset, length, partial(progress, offset))
            except CudaError as error:
                raise DeviceError(_complaint(size_bytes, offset, error)) from error
            self._locked.append(start + offset)
            progress(offset + length)

    def unlock(self, locks: PageLocks, limit_s: float) -> None:
        """Undo what was done, the last first; no copy touches the pool any more.

        Raises:
            CudaError: the driver refused.
            DeviceBusyError: it was not through within `limit_s` seconds.
        """
        locked, self._locked = self._locked, []
        if locked:
            locks.unlock_pages(locked[::-1], limit_s)


def _complaint(size_bytes: int, done_bytes: int, error: CudaError) -> str:
    memory = available()
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    memlock = "unlimited" if limit == resource.RLIM_INFINITY else readable(limit)
    return (
        f"cannot page-lock the host pool of {readable(size_bytes)} beyond {readable(done_bytes)}: {error};"
        f" {memory.source} leaves {readable(memory.free_bytes)}, RLIMIT_MEMLOCK is {memlock} (ulimit -l,"
        " LimitMEMLOCK); lower pool_size, raise the limit, or set pin to false and have slow copies"
    )
