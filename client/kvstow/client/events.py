"""What each event of the stream does to the session, and which of them the engine hears of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kvstow.v1 import cache_pb2

from .callbacks import call_back
from .counters import Tally
from .standing import SessionState, Standing, Ticket
from .transfer import REPORTED_STATES, BlockFailures, Ending, TransferState

SessionEvent: TypeAlias = (
    cache_pb2.TransferOverdue
    | cache_pb2.SpaceReset
    | cache_pb2.ResetDrained
    | cache_pb2.LeaseExpired
    | cache_pb2.Draining
    | cache_pb2.Resync
)
"""What an engine may want to know besides how its transfers ended; see cache.proto for each.

After a `Resync` resets may have been missed. The session itself needs to do nothing: it learns a
generation from the next refusal, and loads do not depend on leases being alive. The daemon sends one
if it had to drop events; the session makes one when it was opened again and there was a reset meanwhile,
or may have been at another daemon process (`vigil`). An engine that stores again what it computed before
must take it for a reset.
"""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What a session tells its engine.

    Attributes:
        on_event: called with each event that is no terminal report.
        on_reopen: called when the session was lost and is open again, or is open at last, before
            anything is asked in it: forget what was believed stored, and tell ranks in other processes the new ticket.
    """

    on_event: Callable[[SessionEvent], object] = lambda event: None
    on_reopen: Callable[[], object] = lambda: None


class SessionEvents:
    """Hears the events of a session, and says what the session finds out itself; on its own thread."""

    def __init__(self, standing: Standing, tally: Tally, callbacks: Callbacks) -> None:
        self._standing = standing
        self._tally = tally
        self._callbacks = callbacks

    def reopened(self) -> None:
        """The session was lost and is open again, or is open at last."""
        self._tally.add(reopened=1)
        call_back(self._callbacks.on_reopen)

    def missed_resets(self) -> None:
        """Resets may have been missed."""
        self._tell(cache_pb2.Resync())

    def hear(self, ticket: Ticket, event: cache_pb2.Event) -> None:
        """Do what an event asks for; a kind that is not known is skipped."""
        match event.WhichOneof("kind"):
            case "transfer_ended":
                self._end_transfer(event.transfer_ended)
            case "transfer_overdue":
                self._tell(event.transfer_overdue)
            case "space_reset":
                self._standing.adopt(ticket, event.space_reset.generation)
                self._tell(event.space_reset)
            case "reset_drained":
                self._tell(event.reset_drained)
            case "lease_expired":
                lease = event.lease_expired
                self._standing.drop_lease(lease.request, lease.lease_id)
                self._tell(lease)
            case "draining":
                self._standing.set_state(ticket, SessionState.DRAINING)
                self._tell(event.draining)
            case "resync":
                self._tell(event.resync)

    def _tell(self, event: SessionEvent) -> None:
        call_back(self._callbacks.on_event, event)

    def _end_transfer(self, report: cache_pb2.TransferEnded) -> None:
        # What a newer daemon says and this client does not know says nothing of the bytes.
        state = REPORTED_STATES.get(report.state, TransferState.LOST)
        failures = [
            BlockFailures(failure.rank, failure.reason, tuple(failure.positions))
            for failure in report.failures
        ]
        reason = "blocks could not be copied" if state is TransferState.FAILED else ""
        ending = Ending(state, reason, failures)
        transfer, known = self._standing.report(report.transfer_id, ending)
        if not known:
            self._tally.add(ignored_reports=1)
        if transfer is not None:
            self._tally.add_ending(state)
            transfer.end(*ending)
