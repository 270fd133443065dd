"""However much falls due at once, one call handles no more than it may, and the next ones do the rest."""

from core.engines import DEADLINE_S, Engine, make_ledger
from kvstow.server.core.books import Limits
from kvstow.server.core.expiry import EXPIRE_LIMIT


def test_leases_that_fall_due_together_expire_in_several_calls() -> None:
    engine = Engine(make_ledger(2))
    engine.store([1, 2])
    for number in range(EXPIRE_LIMIT + 1):
        engine.hold([1, 2], request=str(number))
    now = engine.now + 10 * DEADLINE_S

    assert len(engine.ledger.expire(now=now).leases) == EXPIRE_LIMIT
    engine.ledger.check()
    due = engine.ledger.next_deadline()
    assert due is not None
    assert due <= now
    assert len(engine.ledger.expire(now=now).leases) == 1
    while engine.ledger.sweep():
        engine.ledger.check()
    assert engine.ledger.next_deadline() is None
    assert engine.ledger.snapshot(now=now).tables[0].evictable == 2


def test_sessions_whose_grace_ends_together_end_one_after_the_other() -> None:
    ledger = make_ledger(2, limits=Limits(grace_s=1.0))
    engines = [Engine(ledger), Engine(ledger)]
    for engine in engines:
        ledger.close_stream(engine.session, ledger.open_stream(engine.session), now=0.0)
    ended = [ledger.expire(now=1.0).sessions for _ in range(3)]
    ledger.check()
    assert ended == [(engines[0].session,), (engines[1].session,), ()]
    assert ledger.next_deadline() is None


def test_what_expired_leases_leave_is_swept_at_once() -> None:
    ledger = make_ledger(4, limits=Limits(max_tightened=1))
    engine = Engine(ledger)
    engine.store([1, 2])
    engine.hold([1, 2])
    due = ledger.next_deadline()
    assert due is not None
    ledger.expire(now=due)
    assert ledger.next_deadline() == due
    ledger.expire(now=due)
    assert (
        ledger.next_deadline() is None
    )  # once: whoever is reminded goes on until nothing is left
    assert ledger.sweep()
    assert not ledger.sweep()
