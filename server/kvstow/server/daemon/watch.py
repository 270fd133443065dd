"""One reader's stream of one session's events.

The events themselves are the ledger's; here is how its reader sleeps and wakes, and why the stream ends. `next` is called
by the reader's thread alone, the other methods by anyone.
"""

import threading
import time
from collections.abc import Callable, Sequence

from kvstow.server.core.errors import NoSuchSession
from kvstow.server.core.events import Event
from kvstow.server.core.requests import StreamEnd
from kvstow.server.core.types import SessionId

from .guard import Guard

BATCH = 64
"""Events that one call returns at most."""


class Watcher:
    """A stream.

    Args:
        guard: the lock and the books.
        session: whose events.
        number: of the stream, as the ledger gave it.
        after: the reader has seen the events up to this number.
        leave: called once when the reader closes the stream, without the lock.

    Attributes:
        end: why it has ended; None while it has not. Changed under the lock.
    """

    def __init__(
        self,
        guard: Guard,
        session: SessionId,
        number: int,
        after: int,
        leave: Callable[["Watcher"], None],
    ) -> None:
        self.session = session
        self.number = number
        self.end: StreamEnd | None = None
        self._guard = guard
        self._after = after
        self._leave = leave
        self._signal = threading.Event()

    def next(self, timeout_s: float) -> Sequence[tuple[int, Event]] | None:
        """The next events, none if nothing happened for `timeout_s`; None once the stream has ended."""
        until = time.monotonic() + timeout_s
        while True:
            self._signal.clear()  # before looking: what happens from now on sets it again
            batch = self._read()
            if batch is None or batch or not self._signal.wait(until - time.monotonic()):
                return batch

    def close(self) -> None:
        """The reader is gone."""
        self._leave(self)
        self._signal.set()

    def finish(self, end: StreamEnd) -> None:
        """End the stream, unless it has ended; call it under the lock. After SHUTDOWN waiting events are still read."""
        if self.end is None:
            self.end = end
        self._signal.set()

    def wake(self) -> None:
        """Events may be waiting."""
        self._signal.set()

    def _read(self) -> Sequence[tuple[int, Event]] | None:
        with self._guard as ledger:
            if self.end not in (None, StreamEnd.SHUTDOWN):
                return None
            try:
                batch = ledger.events(self.session, self._after, BATCH)
            except NoSuchSession:  # the daemon is being closed
                return None
        if batch:
            self._after = batch[-1][0]
        return None if self.end is not None and not batch else batch
