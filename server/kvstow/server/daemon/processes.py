"""Sees the death of an engine's process at once.

A process is watched only if it lives in our process id namespace and is the one that was named, by its start time; about
any other nothing is known and the session's stream alone decides. `add` and `forget` may be called under the daemon's
lock; the thread here takes that lock only through `died`.
"""

import contextlib
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from kvstow.server.core.requests import Process
from kvstow.server.core.types import SessionId

_START_TIME_FIELD = 22


@contextlib.contextmanager
def opened(process: Process | None) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process dies; None if it cannot be watched.

    It is closed again if the block raises, and else belongs to whom the block gave it.

    Args:
        process: as its own side named it.
    """
    descriptor = None if process is None else _open(process)
    try:
        yield descriptor
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise


class Processes:
    """Watches processes on a thread of its own.

    Args:
        died: called on that thread with a session one of whose processes has died.
    """

    def __init__(self, died: Callable[[SessionId], None]) -> None:
        self._died = died
        self._orders: deque[tuple[SessionId, int | None]] = deque()
        self._signal = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signal, selectors.EVENT_READ)
        self._watched: dict[SessionId, set[int]] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="processes", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def add(self, session: SessionId, descriptor: int) -> None:
        """Watch a process of a session; the descriptor is ours from now on."""
        self._order(session, descriptor)

    def forget(self, session: SessionId) -> None:
        """The session has ended."""
        self._order(session, None)

    def stop(self) -> None:
        """End the thread and close all descriptors; returns when that is done. May be repeated."""
        if self._stopping:
            return
        self._stopping = True
        os.eventfd_write(self._signal, 1)
        if self._thread.ident is not None:
            self._thread.join()
        self._obey()
        for session in list(self._watched):
            self._drop(session)
        self._selector.close()
        os.close(self._signal)

    def _order(self, session: SessionId, descriptor: int | None) -> None:
        self._orders.append((session, descriptor))
        os.eventfd_write(self._signal, 1)

    def _run(self) -> None:
        while not self._stopping:
            ready = self._selector.select()
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._signal)
            self._obey()
            for key, _ in ready:
                session: SessionId | None = key.data
                if session is not None and session in self._watched:
                    self._drop(session)
                    self._died(session)

    def _obey(self) -> None:
        """Carry out the orders, in the order they were given."""
        while self._orders:
            session, descriptor = self._orders.popleft()
            if descriptor is None:
                self._drop(session)
            else:
                self._selector.register(descriptor, selectors.EVENT_READ, session)
                self._watched.setdefault(session, set()).add(descriptor)

    def _drop(self, session: SessionId) -> None:
        for descriptor in self._watched.pop(session, ()):
            self._selector.unregister(descriptor)
            os.close(descriptor)


def _open(process: Process) -> int | None:
    try:
        if os.stat("/proc/self/ns/pid").st_ino != process.pid_namespace:
            return None
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    # Read after the descriptor was opened: from then on the process id cannot pass to another process unnoticed.
    if _start_time(process.pid) == process.start_time_ticks:
        return descriptor
    os.close(descriptor)
    return None


def _start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None if it is gone or hidden.

    The name in parentheses may hold anything, so the fields are counted behind its end.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return int(fields[_START_TIME_FIELD - 3])
