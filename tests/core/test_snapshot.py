"""A picture of the books shows the moment in which it was taken, whenever it is developed."""

from copy import deepcopy

from core.engines import DEADLINE_S, Engine, identity, make_ledger
from kvstow.server.core.books import Limits
from kvstow.server.core.ledger import Ledger


def pass_by(ledger: Ledger) -> None:
    """A space of another model is made, looked at and dropped."""
    engine = Engine(ledger, identity("other"))
    engine.lookup([1])
    space = engine.space
    engine.end()
    ledger.drop_space(space, now=engine.now)


def eventful() -> Engine:
    """An engine with everything that can change: a lease, a load, stores queued, running and abandoned, evictions; and
    what a space that is gone has counted."""
    engine = Engine(make_ledger(8, limits=Limits(max_events=1)))
    pass_by(engine.ledger)
    engine.store([1, 2])
    engine.hold([1])
    engine.begin_load([2])
    engine.ledger.start(engine.session, engine.begin_store([3, 4]).transfer)
    engine.reset()
    engine.store([1, 2])
    engine.begin_store([5])
    engine.hold([1], request="other")
    engine.store([6, 7, 8])
    return engine


def change(engine: Engine) -> None:
    """Change everything."""
    engine.release(engine.hold([6], request="third"))
    engine.load([2])
    engine.now += 10 * DEADLINE_S
    engine.ledger.expire(now=engine.now)
    engine.store([9])
    engine.finish(engine.begin_load([9]), 0)
    engine.reset()
    while engine.ledger.sweep():
        pass
    engine.store(range(20, 40))
    engine.read()
    pass_by(engine.ledger)
    Engine(engine.ledger)
    engine.end()


def test_what_changes_afterwards_is_not_in_it() -> None:
    engine = eventful()
    capture = engine.ledger.capture(now=engine.now)
    shown = deepcopy(capture.develop())
    change(engine)
    assert engine.ledger.snapshot(now=engine.now) != shown
    assert capture.develop() == shown


def test_it_adds_up() -> None:
    engine = eventful()
    shown = engine.ledger.snapshot(now=engine.now)
    (table,) = shown.tables
    (session,) = shown.sessions
    assert (table.writing, table.quarantined) == (1, 2)
    assert table.held + table.free + table.evictable + table.zeroing + 3 == table.slots == 8
    assert session.held_blocks == sum(lease.blocks for lease in shown.leases) == 1
    assert sorted(each.blocks for each in shown.transfers if not each.abandoned) == [1]
