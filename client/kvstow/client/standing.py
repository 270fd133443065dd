"""What a session believes: whether the daemon knows it, its generation, its leases and transfers.

          stream stands                      daemon says so
AWAY <--------------------> OPEN ---------------------------> DRAINING
          stream broken      |                                   |
  ^                          | session lost                      |
  +--------------------------+-----------------------------------+           any --close--> CLOSED

Only while it is OPEN, and no reset is owed, anything is asked of the daemon. A session that is
AWAY may still have a ticket (its stream broke and will resume) or none (it must be opened again).

An era ends when the session is lost or a reset of this client begins: what was looked up, computed
or leased in an earlier era is void, whatever number its generation had. Without eras a daemon that
was restarted, and counts its generations from the beginning, could take old KV for new.

All of it is guarded by the one lock in here, which is never held during a call or a callback.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from .errors import Refused
from .terms import Terms
from .transfer import Ending, Transfer


class SessionState(Enum):
    """See the picture above."""

    AWAY = "away"
    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


class Ticket(NamedTuple):
    """One opening of a session, for whoever attaches memory to it; may be pickled.

    Attributes:
        boot_id: the daemon process.
        session_id: what that process calls the session.
    """

    boot_id: str
    session_id: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of the space, as far as this session can tell generations apart.

    Attributes:
        era: rises with every loss of the session and every reset by it.
        number: what the daemon calls the generation.
    """

    era: int
    number: int


class Snapshot(NamedTuple):
    """What a session believes at one instant.

    Attributes:
        state: only while it is OPEN anything is found or stored.
        ticket: of this opening; None if there is none.
        generation, terms: of this opening, or of the last one.
    """

    state: SessionState
    ticket: Ticket | None
    generation: Generation
    terms: Terms


class Permit(NamedTuple):
    """What a request needs in order to be sent."""

    ticket: Ticket
    generation: Generation


class _Unfinished:
    """A transfer that was or is being sent.

    A report that overtakes the answer to its own call waits for it, so that a transfer that has
    ended always knows what was accepted.
    """

    __slots__ = ("answered", "report", "transfer")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.answered = False
        self.report: Ending | None = None


class Standing:
    """The session's beliefs.

    Attributes:
        state: whether anything may be asked.
        ticket: what the daemon knows the session by; None if it must be opened (again).
        generation: the current one.
        terms: what the daemon said when it was opened last.
        reset_owed: a reset began whose outcome is unknown.
        when_lost: called with the ticket, without the lock, each time the session is lost.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.state = SessionState.AWAY
        self.ticket: Ticket | None = None
        self.generation = Generation(0, 0)
        self.terms = Terms()
        self.reset_owed = False
        self.when_lost: Callable[[Ticket], None] = lambda ticket: None
        self._unfinished: dict[int, _Unfinished] = {}
        self._leases: dict[str, int] = {}

    def permit(self) -> Permit | None:
        """What is needed to ask the daemon now, None if nothing may be asked."""
        with self._changed:
            if self.state is not SessionState.OPEN or self.reset_owed or self.ticket is None:
                return None
            return Permit(self.ticket, self.generation)

    def why_not(self) -> str:
        """Why there is no permit, for counters and people."""
        return "reset owed" if self.state is SessionState.OPEN else self.state.value

    def snapshot(self) -> Snapshot:
        """All that an engine decides by, of the same instant."""
        with self._changed:
            return Snapshot(self.state, self.ticket, self.generation, self.terms)

    def open(self, ticket: Ticket, number: int, terms: Terms) -> None:
        """The daemon knows the session; its stream does not stand yet."""
        with self._changed:
            self.ticket = ticket
            self.terms = terms
            self.generation = Generation(self.generation.era, number)

    def set_state(self, ticket: Ticket, state: SessionState) -> None:
        """What the stream of that opening says; ignored if it was lost or closed meanwhile."""
        with self._changed:
            if self.ticket == ticket and self.state is not SessionState.CLOSED:
                self.state = state
                self._changed.notify_all()

    def lose(self, ticket: Ticket) -> None:
        """The daemon does not know the session any more, or must not be trusted to.

        Its transfers stay unfinished until it is known that their copies have ended.
        """
        with self._changed:
            if self.ticket != ticket:
                return
            self.ticket = None
            if self.state is not SessionState.CLOSED:
                self.state = SessionState.AWAY
            self._begin_era()
            self._changed.notify_all()
        self.when_lost(ticket)

    def close(self) -> None:
        """Nothing is asked any more."""
        with self._changed:
            self.state = SessionState.CLOSED
            self._changed.notify_all()

    def believe(self, ticket: Ticket, refused: Refused) -> None:
        """A refusal may say something about the session itself."""
        match refused.reason:
            case "STALE_GENERATION":
                self.adopt(ticket, int(refused.facts.get("generation", 0)))
            case "NO_SUCH_SESSION":
                self.lose(ticket)
            case "DRAINING":
                self.set_state(ticket, SessionState.DRAINING)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a change of what is believed; returns whether the condition holds."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    # Generations.

    def adopt(self, ticket: Ticket, number: int) -> None:
        """The space has this generation, unless a newer one is known."""
        with self._changed:
            if self.ticket == ticket and number > self.generation.number:
                self.generation = Generation(self.generation.era, number)
                self._leases.clear()

    def begin_reset(self) -> int:
        """From now on nothing older is found or stored. Returns the era, for `end_reset`."""
        with self._changed:
            self.reset_owed = True
            self._begin_era()
            return self.generation.era

    def end_reset(self, era: int, number: int) -> None:
        """The daemon made the reset that began this era; a later one is still owed."""
        with self._changed:
            if self.generation.era == era:
                self.generation = Generation(era, max(number, self.generation.number))
                self.reset_owed = False
                self._changed.notify_all()

    def _begin_era(self) -> None:
        self.generation = Generation(self.generation.era + 1, self.generation.number)
        self._leases.clear()

    # Leases, by the request whose lookup took them.

    def keep_lease(self, permit: Permit, request: str, lease_id: int) -> bool:
        """Remember the lease (0: that there is none); False if the era ended meanwhile."""
        with self._changed:
            if self.generation.era != permit.generation.era:
                return False
            self._leases.pop(request, None)
            if lease_id:
                self._leases[request] = lease_id
            return True

    def take_leases(self, requests: Sequence[str]) -> list[int]:
        """Forget the leases of these requests; returns their ids."""
        with self._changed:
            found = [self._leases.pop(request, 0) for request in requests]
            return [lease_id for lease_id in found if lease_id]

    def drop_lease(self, request: str, lease_id: int) -> None:
        """This lease has ended."""
        with self._changed:
            if self._leases.get(request) == lease_id:
                del self._leases[request]

    # Transfers. Whoever is handed one ends it, without the lock.

    @property
    def unfinished_count(self) -> int:
        """Transfers that have not ended."""
        return len(self._unfinished)

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until all transfers have ended; returns whether they have."""
        return self.wait_until(lambda: not self._unfinished, timeout_s)

    def begin(self, transfer: Transfer, permit: Permit) -> bool:
        """A transfer is about to be sent; False if the session was lost or reset meanwhile."""
        with self._changed:
            if self.state is not SessionState.OPEN or self.generation.era != permit.generation.era:
                return False
            self._unfinished[transfer.id] = _Unfinished(transfer)
            return True

    def answer(self, number: int) -> Ending | None:
        """The daemon has accepted it; the report, if it came first: the caller ends the transfer."""
        with self._changed:
            found = self._unfinished.get(number)
            if found is None:
                return None
            found.answered = True
            if found.report is not None:
                self._pop(number)
            return found.report

    def report(self, number: int, ending: Ending) -> tuple[Transfer | None, bool]:
        """The daemon's terminal report: the transfer for the caller to end, and whether it is known."""
        with self._changed:
            found = self._unfinished.get(number)
            if found is None:
                return None, False
            if not found.answered:
                found.report = ending
                return None, True
            self._pop(number)
            return found.transfer, True

    def withdraw(self, number: int) -> bool:
        """It was not accepted; True if the caller shall end it."""
        with self._changed:
            return self._pop(number) is not None

    def take_unfinished(self) -> Iterator[tuple[Transfer, Ending | None]]:
        """All that have not ended, with the report of those that only lack an answer."""
        with self._changed:
            taken = list(self._unfinished.values())
            self._unfinished.clear()
            self._changed.notify_all()
        return ((found.transfer, found.report) for found in taken)

    def _pop(self, number: int) -> _Unfinished | None:
        found = self._unfinished.pop(number, None)
        self._changed.notify_all()
        return found
