"""What a session believes, where two threads would have to meet in one instant to see it."""

import itertools
import sys
import threading

from kvstow.client import SessionState, Ticket, Transfer
from kvstow.client.standing import Snapshot, Standing
from kvstow.client.terms import Terms

TICKET = Ticket("boot", 1)


def standing() -> Standing:
    """Of a session that is open."""
    found = Standing()
    found.open(TICKET, 1, Terms())
    found.set_state(TICKET, SessionState.OPEN)
    return found


def test_a_transfer_that_waited_for_its_turn_is_not_sent_after_a_reset() -> None:
    session = standing()
    permit = session.permit()
    assert permit is not None
    session.end_reset(session.begin_reset(), 2)
    assert not session.begin(Transfer(1), permit)
    assert session.unfinished_count == 0


def test_a_transfer_that_waited_for_its_turn_is_not_sent_in_the_next_session() -> None:
    session = standing()
    permit = session.permit()
    assert permit is not None
    session.lose(TICKET)
    session.open(Ticket("boot", 2), 1, Terms())
    session.set_state(Ticket("boot", 2), SessionState.OPEN)
    assert not session.begin(Transfer(1), permit)


def test_a_snapshot_is_of_one_instant() -> None:
    """While a session is lost and opened again, ticket, generation and limits belong together."""
    session, stopped = standing(), threading.Event()

    def reopen() -> None:
        for number in itertools.count(2):
            if stopped.is_set():
                return
            ticket = Ticket("boot", number)
            session.lose(Ticket("boot", number - 1) if number > 2 else TICKET)
            session.open(ticket, number, Terms(number, number))
            session.set_state(ticket, SessionState.OPEN)

    thread = threading.Thread(target=reopen)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    seen: set[Snapshot] = set()
    while len(seen) < 1000:
        seen.add(session.snapshot())
    stopped.set()
    thread.join()
    sys.setswitchinterval(interval_s)
    for state, ticket, generation, terms in seen:
        if ticket is None:
            assert state is SessionState.AWAY
        elif ticket != TICKET:
            assert ticket.session_id == generation.number == terms.space_id == generation.era + 1
