"""What is done without being asked: what falls due, and taking back the slots that a reset has dropped.

All of it happens on one thread, in small steps; the lock is free between them. Nothing here waits for a device.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from kvstow.server.core.errors import BooksError
from kvstow.server.core.expiry import Expired
from kvstow.server.core.requests import StreamEnd
from kvstow.server.core.types import SessionEnd

from .flights import Flights
from .guard import NEVER, Guard
from .sessions import Sessions

STEP_PAUSE_S = 0.001
"""Between two steps. The lock is not fair: without a pause the next step would take it again at once."""

_RETRY_S = 1.0
_log = structlog.get_logger("kvstow.daemon")


@dataclass(slots=True)
class Upkeep:
    """The work of the timer thread.

    Args:
        guard: the lock and the books.
        sessions: what is kept of sessions.
        flights: transfers in the air.
        clock: the daemon's clock.
    """

    guard: Guard
    sessions: Sessions
    flights: Flights
    clock: Callable[[], float]

    def work(self) -> float:
        """Do what is due; returns when to come again."""
        try:
            self._expire()
            return self._sweep()
        except BooksError:  # the guard has reported it; what else falls due is still to be done
            return self.clock() + _RETRY_S

    def _expire(self) -> None:
        with self.guard as ledger:
            expired = ledger.expire(now=self.clock())
            self.flights.mark_overdue(expired.overdue)
            for session in expired.sessions:
                self.sessions.leave(session, StreamEnd.LOST)
        _log_expired(expired)

    def _sweep(self) -> float:
        """One step; then arm the timer.

        What has fallen due meanwhile, or was left, waits for the pause like the next step. The guard is told the earlier
        time, so that nobody who leaves the lock before wakes the timer for it.
        """
        with self.guard as ledger:
            left, due, now = ledger.sweep(), ledger.next_deadline(), self.clock()
            self.guard.armed_until = min(NEVER if due is None else due, now if left else NEVER)
            return max(self.guard.armed_until, now + STEP_PAUSE_S)


def _log_expired(expired: Expired) -> None:
    for session, transfer in expired.overdue:
        _log.warning(
            "transfer is past its deadline and still runs: its slots and blocks stay its own",
            session=session,
            transfer=transfer,
            look_at="kvstow transfers --stuck",
        )
    for session in expired.sessions:
        _log.info(
            "session ended",
            session=session,
            cause=SessionEnd.STREAM_LOST.value,
            why="its stream was away for longer than session_grace_s, or it acknowledged nothing",
        )
    if expired.leases:
        _log.info(
            "leases expired: their engines neither loaded nor released", count=len(expired.leases)
        )
