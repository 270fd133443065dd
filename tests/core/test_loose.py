"""What a call gives back of what has come loose: its own, and of others only what a store needs."""

import pytest

from core.engines import SLOT_BYTES, Engine, identity, key, make_ledger
from kvstow.server.core.books import Limits
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.pool import ROOM_STEPS, TIGHTEN_LIMIT
from kvstow.server.core.types import GroupKeys, Hold

SWEPT_LATER = Limits(max_tightened=0, max_leases=1 << 20)
"""No call gives anything back that is not needed."""


def loose_count(ledger: Ledger) -> int:
    """Slots that are still to be given back."""
    tables = ledger._books.pool.tables.values()
    batches = (loose for table in tables for each in table.backlog.values() for loose in each)
    return sum(len(loose.slots) for loose in batches)


def held_count(ledger: Ledger) -> int:
    """Slots that something still reads, or seems to."""
    return sum(table.held for table in ledger.snapshot(now=0.0).tables)


def hold_often(engine: Engine, numbers: list[int], leases: int) -> None:
    """Hold the same blocks under many leases; the books are checked once for all of them."""
    asked = [GroupKeys(0, [key(number) for number in numbers])]
    for request in range(leases):
        options = LookupOptions(str(request), Hold.PREFIX)
        engine.ledger.lookup(engine.session, engine.generation, asked, options, now=engine.now)
    engine.ledger.check()


def test_one_release_gives_back_every_group_of_its_lease() -> None:
    ledger = make_ledger(8, limits=Limits(max_tightened=4))
    engine = Engine(ledger, identity(block_bytes=(SLOT_BYTES, SLOT_BYTES)))
    engine.store([1, 2], [1, 2])
    lease = engine.lookup([1, 2], [1, 2], request="r").lease
    assert lease is not None
    assert held_count(ledger) == 4
    engine.release(lease)
    assert (held_count(ledger), loose_count(ledger)) == (0, 0)
    assert ledger.next_deadline() is None


def test_a_release_gives_back_nothing_that_others_left() -> None:
    ledger = make_ledger(8, limits=Limits(max_tightened=2))
    mine, other = Engine(ledger), Engine(ledger)
    mine.store([1, 2, 3, 4, 5, 6])
    other.hold([1, 2, 3, 4, 5])
    lease = mine.hold([6])
    other.end()
    assert loose_count(ledger) == 3
    mine.release(lease)
    assert loose_count(ledger) == 3
    assert mine.states([6]) == "R"


def test_a_store_waits_for_few_of_the_holds_of_an_ended_generation() -> None:
    """Blocks that nobody held are there, so those that were held many times are left to the sweep."""
    ledger = make_ledger(8, limits=SWEPT_LATER)
    engine = Engine(ledger)
    engine.store(range(8))
    leases = 2 * TIGHTEN_LIMIT
    hold_often(engine, [0], leases)
    engine.reset()
    assert loose_count(ledger) == leases
    assert engine.store([10]) == "A"
    assert loose_count(ledger) == leases


def test_a_store_does_not_look_through_an_ended_generation_that_is_mostly_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hold that is given back frees a slot as well as an entry that nobody held, and may do so earlier."""
    monkeypatch.setattr("kvstow.server.core.pool.TIGHTEN_LIMIT", 1)
    monkeypatch.setattr("kvstow.server.core.index.DRAIN_LIMIT", 1)
    ledger = make_ledger(8, limits=SWEPT_LATER)
    engine = Engine(ledger)
    engine.store([7])
    engine.store(range(7))
    engine.hold(range(7))
    engine.reset()
    assert loose_count(ledger) == 7
    assert engine.store([10]) == "A"
    assert loose_count(ledger) == 6


def test_a_block_was_last_used_when_its_hold_ended_not_when_that_was_given_back() -> None:
    ledger = make_ledger(4, limits=SWEPT_LATER)
    engine = Engine(ledger)
    engine.store([1])
    engine.release(engine.hold([1]))
    ended_at = engine.now
    while ledger.sweep():
        ledger.check()
    (table,) = ledger._books.pool.tables.values()
    (slot,) = table.policy.order()
    assert table.last_use(slot) == ended_at
    assert table.extents[0].used_at == ended_at


def test_a_store_waits_for_the_loose_slots_of_its_own_size_first() -> None:
    ledger = make_ledger(8, extent_bytes=4 * SLOT_BYTES, limits=SWEPT_LATER)
    large = identity("large", block_bytes=(2 * SLOT_BYTES,))
    first, second = Engine(ledger), Engine(ledger, large)
    first.store(range(4))
    second.store(range(2))
    first.hold(range(2))
    second.hold(range(2))
    first.end()
    second.end()
    assert loose_count(ledger) == 4
    assert Engine(ledger, large).store([7]) == "A"
    assert loose_count(ledger) == 2
    assert {table.slot_bytes: table.held for table in ledger.snapshot(now=0.0).tables} == {
        SLOT_BYTES: 2,
        2 * SLOT_BYTES: 0,
    }


def test_a_store_does_not_wait_for_holds_without_end() -> None:
    """It hears that there is no space; what keeps it from having some is swept."""
    ledger = make_ledger(2, limits=SWEPT_LATER)
    engine = Engine(ledger)
    engine.store([0, 1])
    leases = ROOM_STEPS * TIGHTEN_LIMIT
    hold_often(engine, [0, 1], leases)
    other = Engine(ledger)
    engine.end()
    assert other.store([2]) == "N"
    assert loose_count(ledger) == leases
    assert other.store([2]) == "A"
