"""What a session believes, where two threads would have to meet in one instant to see it."""

from kvstow.client import SessionState, Ticket, Transfer
from kvstow.client.standing import Standing

TICKET = Ticket("boot", 1)


def standing() -> Standing:
    """Of a session that is open."""
    found = Standing()
    found.open(TICKET, 1)
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
    session.open(Ticket("boot", 2), 1)
    session.set_state(Ticket("boot", 2), SessionState.OPEN)
    assert not session.begin(Transfer(1), permit)
