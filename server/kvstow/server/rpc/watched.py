"""Files of secrets that may change while the daemon runs.

A file that was made unreadable or wrong changes nothing: what was read before stays in force, and the log says why.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import structlog

ContentT = TypeVar("ContentT")
_log = structlog.get_logger("kvstow.security")


class CredentialError(Exception):
    """A file of tokens or certificates cannot be used; one line that names it and the reason."""


class Watched(Generic[ContentT]):
    """What files hold, read again when one of them changes. May be refreshed from any thread; what was read last stays.

    Args:
        paths: the files.
        read: makes the content of them.

    Raises:
        CredentialError: it cannot be read now.
    """

    def __init__(self, paths: Sequence[Path], read: Callable[[], ContentT]) -> None:
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._signatures()
        self.content = read()

    def refresh(self) -> bool:
        """Read again if a file has changed; whether there is something new."""
        with self._lock:
            return self._refresh()

    def _refresh(self) -> bool:
        found = self._signatures()
        if found == self._seen:
            return False
        self._seen = found
        try:
            self.content = self._read()
        except CredentialError as error:
            _log.error("what was read before stays in force", reason=str(error))
            return False
        _log.info("read again", files=[str(path) for path in self._paths])
        return True

    def _signatures(self) -> list[tuple[int, ...]]:
        return [_signature(path) for path in self._paths]


def _signature(path: Path) -> tuple[int, ...]:
    """What differs when a file was written or replaced, also through a link; empty if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
