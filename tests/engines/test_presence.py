"""Nothing is copied before the memory of every rank is attached to the session as it is open now."""

from collections.abc import Mapping

import pytest

from engines.daemon import SimulatedSession
from engines.driving import LARGE, PROMPT, run
from engines.engine import SimulatedEngine
from engines.memory import Memory
from kvstow.client import Ticket
from kvstow.client.engines.offload.presence import PATIENCE_S, Presence
from kvstow.client.engines.offload.steps import Report
from support.clock import ManualClock

NOW, BEFORE = Ticket("boot 1", 1), Ticket("boot 0", 1)


@pytest.mark.parametrize(
    ("attached", "expected"),
    [
        ({}, False),
        ({0: NOW}, False),
        ({1: NOW}, False),
        ({0: NOW, 1: BEFORE}, False),
        ({0: BEFORE, 1: NOW}, False),
        ({0: NOW, 1: NOW}, True),
    ],
)
def test_all_ranks_are_there_or_none(attached: Mapping[int, Ticket], expected: bool) -> None:
    presence = Presence(SimulatedSession(Memory(1)), world_size=2, clock=ManualClock())
    for rank, ticket in attached.items():
        presence.hear(Report(1, {rank: ticket}))
    assert presence.all_attached() == expected


def test_they_are_worth_waiting_for_after_each_opening() -> None:
    session, clock = SimulatedSession(Memory(1)), ManualClock()
    presence = Presence(session, world_size=2, clock=clock)
    for _ in range(2):
        assert presence.worth_waiting()
        clock.advance(PATIENCE_S)
        assert not presence.worth_waiting()
        session.die()
        assert not presence.worth_waiting(), "it is not open"
        session.come_back()


def test_what_was_found_is_given_back_where_ranks_do_not_attach() -> None:
    """For some time it is held for a request that waits; then it is not, even if that cannot be admitted yet."""
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    engine.session.ticket = Ticket("boot 1", 2)
    engine.session.faults.slow = True
    request = engine.add(PROMPT, 0, False)
    assert engine.half.find(request, 0) is None
    assert engine.session.leases
    engine.now += PATIENCE_S
    assert engine.half.find(request, 0) == 0
    assert not engine.session.leases
