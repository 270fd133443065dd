"""Engine memory that the daemon can open: one file of shared memory, in /dev/shm or another directory on tmpfs.

The daemon opens the file by its path when the memory is attached, and again after a restart, so
the path must stay as long as the memory is in use; `close` unlinks it. The file is created with
mode 0600 and stays locked as long as this process lives: that is how the next process knows which
files a killed one left behind, and unlinks them.
"""

import fcntl
import mmap
import os
import secrets
from contextlib import suppress
from pathlib import Path

from kvstow.v1 import cache_pb2

from .closing import Closing

DIRECTORY = Path("/dev/shm")
_PREFIX = "kvstow-memory-"


class EngineMemory(Closing):
    """A piece of shared memory, all zeros.

    Args:
        size_bytes: how much; at least 1.
        directory: where its file lies, if the daemon opens files only there (its `memory_path`); one on tmpfs, that exists.

    Attributes:
        path: of the file.
        buffer: the bytes, writable; `numpy.frombuffer` and `torch.frombuffer` take it as it is.

    Raises:
        OSError: the directory has no room for it, does not exist, or may not be written to.
    """

    def __init__(self, size_bytes: int, directory: Path = DIRECTORY) -> None:
        directory = directory.absolute()
        _unlink_abandoned_files(directory)
        self.path, descriptor = _create_locked_file(directory)
        self._descriptor: int | None = descriptor
        try:
            # Takes the pages now: an error here is better than SIGBUS at some later write.
            os.posix_fallocate(descriptor, 0, size_bytes)
            self.buffer = memoryview(mmap.mmap(descriptor, size_bytes))
        except OSError:
            self.close()
            raise

    def region(self) -> cache_pb2.Region:
        """All of it, as an attach names it."""
        return cache_pb2.Region(
            shared_memory=cache_pb2.SharedMemory(path=str(self.path), size_bytes=len(self.buffer))
        )

    def close(self) -> None:
        """Unlink the file; the bytes live on until the last process unmaps them. May be repeated."""
        self.path.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _create_locked_file(directory: Path) -> tuple[Path, int]:
    while True:
        path = directory / f"{_PREFIX}{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Between the two calls another process may have taken the file for an abandoned one.
        if os.fstat(descriptor).st_nlink == 1:
            return path, descriptor
        os.close(descriptor)


def _unlink_abandoned_files(directory: Path) -> None:
    """Unlink the files of this user's processes that were killed: nobody holds their lock."""
    for path in directory.glob(f"{_PREFIX}*"):
        with suppress(
            OSError
        ):  # it is gone, somebody else's, no file at all, or its process lives
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)
