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
from functools import partial
from pathlib import Path
from typing import TypeAlias

from kvstow.server.core.requests import Process
from kvstow.server.core.types import SessionId

Owner: TypeAlias = int | None
"""Whose process it is: a rank's, None for the engine's that opened the session."""

_FLAGS, _START_TIME = 9 - 3, 22 - 3
"""Fields of `/proc/PID/stat`, as proc_pid_stat(5) counts them, behind the process id and the name."""

_PF_EXITING = 0x4
"""Of the flags; see `include/linux/sched.h` of the kernel."""


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


def is_ending(process: Process) -> bool:
    """Whether a process that could be watched has begun to end; its death is seen only when it is through with that.

    The kernel marks a process so before it closes any of its files (`do_exit` in `kernel/exit.c`). So of one that is
    not marked no driver has taken anything down yet.
    """
    fields = _fields(process.pid)
    if fields is None or int(fields[_START_TIME]) != process.start_time_ticks:
        return True
    return bool(int(fields[_FLAGS]) & _PF_EXITING)


class Processes:
    """Watches processes on a thread of its own.

    Args:
        died: called on that thread with a session one of whose processes has died.
    """

    def __init__(self, died: Callable[[SessionId], None]) -> None:
        self._died = died
        self._orders: deque[Callable[[], None]] = deque()
        self._signal = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signal, selectors.EVENT_READ)
        self._watched: dict[SessionId, dict[Owner, selectors.SelectorKey]] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="processes", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def add(self, session: SessionId, owner: Owner, descriptor: int) -> None:
        """Watch a process of a session; the descriptor is ours from now on."""
        self._order(partial(self._watch, session, owner, descriptor))

    def forget_rank(self, session: SessionId, rank: int) -> None:
        """The rank has detached: what becomes of its process does not matter any more."""
        self._order(partial(self._drop, session, rank))

    def forget(self, session: SessionId) -> None:
        """The session has ended."""
        self._order(partial(self._drop_all, session))

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
            self._drop_all(session)
        self._selector.close()
        os.close(self._signal)

    def _order(self, order: Callable[[], None]) -> None:
        self._orders.append(order)
        os.eventfd_write(self._signal, 1)

    def _run(self) -> None:
        while not self._stopping:
            ready = self._selector.select()
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._signal)
            self._obey()
            for key, _ in ready:
                if key.data is not None:
                    self._report(key)

    def _obey(self) -> None:
        """Carry out the orders, in the order they were given."""
        while self._orders:
            self._orders.popleft()()

    def _report(self, key: selectors.SelectorKey) -> None:
        """A process has died; unless it is watched no longer, its session ends."""
        session, owner = key.data
        if self._watched.get(session, {}).get(owner) is key:
            self._drop_all(session)
            self._died(session)

    def _watch(self, session: SessionId, owner: Owner, descriptor: int) -> None:
        key = self._selector.register(descriptor, selectors.EVENT_READ, (session, owner))
        self._watched.setdefault(session, {})[owner] = key

    def _drop_all(self, session: SessionId) -> None:
        for owner in list(self._watched.get(session, ())):
            self._drop(session, owner)

    def _drop(self, session: SessionId, owner: Owner) -> None:
        watched = self._watched.get(session, {})
        key = watched.pop(owner, None)
        if key is None:
            return
        self._selector.unregister(key.fd)
        os.close(key.fd)
        if not watched:
            del self._watched[session]


def _open(process: Process) -> int | None:
    try:
        if os.stat("/proc/self/ns/pid").st_ino != process.pid_namespace:
            return None
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return None
    # Read after the descriptor was opened: from then on the process id cannot pass to another process unnoticed.
    fields = _fields(process.pid)
    if fields is not None and int(fields[_START_TIME]) == process.start_time_ticks:
        return descriptor
    os.close(descriptor)
    return None


def _fields(pid: int) -> list[str] | None:
    """What the kernel says of a process, from the third field on; None if it is gone or hidden.

    The name in parentheses may hold anything, so the fields are counted behind its end.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()
