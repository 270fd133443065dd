"""What happens because time has passed."""

from dataclasses import dataclass
from itertools import islice

from .books import Books
from .deadlines import GraceDue, LeaseDue, SweepDue, TransferDue
from .events import LeaseExpired, TransferOverdue
from .lives import end_session
from .types import LeaseId, SessionEnd, SessionId, TransferId

EXPIRE_LIMIT = 1 << 9
"""Leases and transfers that one call handles, each in some microseconds."""


@dataclass(frozen=True, slots=True)
class Expired:
    """What fell due: for the log, and for the caller that has to close memory."""

    leases: tuple[LeaseId, ...]
    overdue: tuple[tuple[SessionId, TransferId], ...]
    sessions: tuple[SessionId, ...]


def expire(books: Books, *, now: float) -> Expired:
    """See `Ledger.expire`."""
    leases, overdue, sessions = [], [], []
    for due in islice(books.deadlines.pop_due(now), EXPIRE_LIMIT):
        match due:
            case LeaseDue(lease):
                _expire_lease(books, lease, now)
                leases.append(lease)
            case TransferDue(session, transfer):
                _mark_overdue(books, session, transfer, now)
                overdue.append((session, transfer))
            case GraceDue(session):
                end_session(books, session, SessionEnd.STREAM_LOST, now=now)
                sessions.append(session)
                break  # it may have had thousands of leases and transfers; the next one is for the next call
            case SweepDue():
                pass  # the caller sweeps after this
    books.tighten(now)
    return Expired(tuple(leases), tuple(overdue), tuple(sessions))


def _expire_lease(books: Books, lease_id: LeaseId, now: float) -> None:
    lease = books.void_lease(lease_id, now)
    books.counters.leases_expired += 1
    books.tell(books.sessions[lease.session], LeaseExpired(lease.id, lease.request), now)


def _mark_overdue(
    books: Books, session_id: SessionId, transfer_id: TransferId, now: float
) -> None:
    transfer = books.transfers[session_id, transfer_id]
    transfer.overdue = True
    books.counters.overdue += 1
    session = books.sessions.get(session_id)
    if session is not None:
        session.overdue_count += 1
        age_s = now - transfer.began_at
        books.tell(session, TransferOverdue(transfer.id, transfer.kind, age_s), now)
