"""How much is zeroed at once, and in which order; what is zeroed, and when, `tests/scenarios/zeroing.txt` says."""

from core.engines import SLOT_BYTES, Engine, identity, make_ledger
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.zeroing import STEP_BYTES, STEP_SLOTS


def steps(ledger: Ledger) -> list[list[range]]:
    """Zero everything; what each step took."""
    while ledger.sweep():
        pass
    found = []
    while (pieces := ledger.begin_zeroing()) is not None:
        found.append(list(pieces))
        ledger.end_zeroing()
        ledger.check()
    return found


def test_a_step_has_so_many_slots_and_no_more() -> None:
    slot_count = 2 * STEP_SLOTS + 1
    ledger = make_ledger(slot_count, zeroes="tenant".__eq__)
    engine = Engine(ledger)
    engine.store(range(slot_count))
    engine.reset()
    sizes = [sum(map(len, step)) // SLOT_BYTES for step in steps(ledger)]
    assert sizes == [STEP_SLOTS, STEP_SLOTS, 1]


def test_a_step_has_so_many_bytes_or_one_slot() -> None:
    """Books need no memory: slots may be as large as they like."""
    for slot_bytes, expected in ((STEP_BYTES // 2, [2, 1]), (STEP_BYTES + SLOT_BYTES, [1, 1, 1])):
        ledger = make_ledger(3 * slot_bytes // SLOT_BYTES, zeroes="tenant".__eq__)
        engine = Engine(ledger, identity(block_bytes=[slot_bytes]))
        engine.store([1, 2, 3])
        engine.reset()
        assert [sum(map(len, step)) // slot_bytes for step in steps(ledger)] == expected


def test_neighbours_are_zeroed_in_one_piece() -> None:
    ledger = make_ledger(8, zeroes="tenant".__eq__)
    engine = Engine(ledger)
    engine.finish(engine.begin_store(range(8)), 0, 1, 3, 6, 7)
    at = SLOT_BYTES
    assert steps(ledger) == [[range(2 * at), range(3 * at, 4 * at), range(6 * at, 8 * at)]]


def test_extents_take_turns() -> None:
    """One that becomes dirty again and again does not keep the others waiting."""
    extent_bytes = 2 * STEP_SLOTS * SLOT_BYTES
    ledger = make_ledger(4 * STEP_SLOTS, extent_bytes=extent_bytes, zeroes="tenant".__eq__)
    engine = Engine(ledger)
    engine.store(range(4 * STEP_SLOTS))
    engine.reset()
    extents = [step[0].start // extent_bytes for step in steps(ledger)]
    assert sorted(extents) == [0, 0, 1, 1]
    assert extents[0] != extents[1]


def test_slot_sizes_take_turns() -> None:
    """A tenant whose blocks are dropped again and again does not keep the slots of another from being zeroed."""
    ledger = make_ledger(8, extent_bytes=2 * SLOT_BYTES, zeroes="tenant".__eq__)
    small, large = Engine(ledger), Engine(ledger, identity(block_bytes=[2 * SLOT_BYTES]))
    small.store([1])
    large.store([1])
    large.reset()
    for _ in range(2):
        small.reset()
        small.store([2])
        small.reset()
        while ledger.sweep():
            pass
        assert ledger.begin_zeroing() is not None
        ledger.end_zeroing()
        ledger.check()
    shown = {table.slot_bytes: table.zeroing for table in ledger.snapshot(now=0.0).tables}
    assert shown[SLOT_BYTES] > 0
    assert shown[2 * SLOT_BYTES] == 0
