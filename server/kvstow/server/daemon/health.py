"""What is wrong with the daemon, if anything.

Bugs are ours: books that contradict themselves, or an exception that no one foresaw. They are logged once, counted, and
make the daemon not live, so that whoever runs it starts another; it goes on answering meanwhile. May be called from any
thread, never under the daemon's lock.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from kvstow.server.core.requests import ServerState
from kvstow.server.device.base import DeviceHealth

from .guard import LockUse

_log = structlog.get_logger("kvstow.daemon")


@dataclass(frozen=True, slots=True)
class Status:
    """How the daemon fares, apart from its books.

    Args:
        state: where it is in its life.
        bug_count: errors that no client can have caused.
        stuck_count: transfers past their deadline whose copy still runs.
        refusals: how often a request was refused for what the books say, by reason.
        lock: how the one lock was used.
        devices: how each device fares.
    """

    state: ServerState
    bug_count: int
    stuck_count: int
    refusals: Mapping[str, int]
    lock: LockUse
    devices: Sequence[DeviceHealth]


class Health:
    """Counts bugs.

    Attributes:
        bug_count: bugs since the start.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.bug_count = 0

    def report(self, where: str, error: BaseException) -> None:
        """An error that no client can cause."""
        with self._lock:
            self.bug_count += 1
        _log.error("bug: please report this, and restart the daemon", where=where, exc_info=error)

    def report_dead_thread(self, dead: threading.ExceptHookArgs) -> None:
        """A thread ended by an exception, and nobody does its work any more: for `threading.excepthook`."""
        name = "unknown" if dead.thread is None else dead.thread.name
        self.report(f"thread {name}", dead.exc_value or RuntimeError(dead.exc_type.__name__))
