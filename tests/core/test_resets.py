"""What one call of a reset does, and what it leaves to others."""

from core.engines import SLOT_BYTES, Engine, identity, make_ledger
from kvstow.server.core.books import Limits


def test_a_reset_of_all_spaces_gives_back_as_many_holds_as_one_call_may() -> None:
    ledger = make_ledger(12, extent_bytes=4 * SLOT_BYTES, limits=Limits(max_tightened=3))
    engines = [Engine(ledger, identity(model)) for model in "abc"]
    for engine in engines:
        engine.store([1, 2, 3, 4])
        engine.hold([1, 2, 3, 4])

    results = ledger.reset_all(now=9)
    ledger.check()
    assert [result.dropped_count for result in results.values()] == [4, 4, 4]
    assert results.keys() == {engine.space for engine in engines}
    snapshot = ledger.snapshot(now=9)
    assert snapshot.leases == ()
    assert sum(table.held for table in snapshot.tables) == 9
    assert ledger.next_deadline() == 9  # the rest is swept, and at once
    for engine in engines:
        assert engine.generation == 2
        assert engine.states([1, 2, 3, 4]) == "...."
    while ledger.sweep():
        ledger.check()
    assert not any(table.held for table in ledger.snapshot(now=9).tables)
