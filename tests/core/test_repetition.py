"""What is done again and again leaves nothing behind."""

from collections.abc import Iterator

import pytest

from core.engines import Engine, make_ledger, named_policy
from kvstow.server.core.events import ResetDrained, SpaceReset, TransferEnded
from kvstow.server.core.policy import POLICY_NAMES


@pytest.fixture(params=POLICY_NAMES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine on a pool of four slots; after the test nothing is left of it."""
    engine = Engine(make_ledger(4, policy=named_policy(request.param)))
    yield engine
    engine.end()
    left = engine.ledger.snapshot(now=engine.now)
    assert not any([left.sessions, left.transfers, left.leases])
    (table,) = left.tables
    assert table.free + table.evictable == table.slots == 4


def test_store_and_reset_in_turn(engine: Engine) -> None:
    """However often: a reset frees everything, and nothing is refused for want of it."""
    for generation in range(1, 201):
        assert engine.generation == generation
        assert engine.store([1, 2, 3, 4]) == "AAAA"
        engine.load([1, 2])
        engine.reset()
        assert engine.states([1, 2, 3, 4]) == "...."
        kinds = [type(event) for event in engine.read()]
        assert kinds == [TransferEnded, TransferEnded, SpaceReset, ResetDrained]


def test_stores_larger_than_the_pool(engine: Engine) -> None:
    """Ten thousand of them: the leading part or nothing, whatever was there before, and an honest answer."""
    for first in range(0, 5_000 * 6, 6):
        keys = range(first, first + 6)
        plan = engine.begin_store(keys)
        assert plan.statuses == "AAAANN"
        assert engine.begin_store(range(first + 1, first + 7)).statuses == "WWWNNN"
        failed = (0, 3) if first % 18 == 0 else ()
        engine.finish(plan, *failed)
        assert engine.states(keys) == (".RR..." if failed else "RRRR..")
        assert len(engine.read()) == 1
    assert engine.ledger.next_deadline() is None
