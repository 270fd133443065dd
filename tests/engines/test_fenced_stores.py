"""Stores whose answer, or whose worth, is not what was hoped for; their blocks are theirs all the same."""

from engines.driving import LARGE, PROMPT, SMALL
from engines.engine import SimulatedEngine
from engines.request import Stage
from kvstow.client import TransferState


def test_a_store_that_was_not_answered_may_read_all_that_it_named() -> None:
    """Steps that overwrite its blocks wait for it; the simulated workers see to that."""
    engine = SimulatedEngine(SMALL)
    engine.session.faults.silent = True
    first = engine.add(PROMPT, 0, False)
    while first.stage is not Stage.OVER:
        engine.step()
    assert [copy.transfer.statuses for copy in engine.session.copies][:1] == [""]
    engine.half.take_counts()
    second = engine.add(bytes(range(100, 124)), 0, False)
    while second.stage is not Stage.OVER:
        engine.step()
    assert engine.half.take_counts()["fences"]


def test_the_end_of_a_store_that_a_reset_made_void_holds_up_nothing() -> None:
    """It is no refusal, after which nothing would be offered for a while."""
    engine = SimulatedEngine(LARGE)
    engine.add(PROMPT, 20, False)
    while not engine.session.copies:
        engine.step()
    (old,) = engine.session.copies
    assert engine.reset(running=True)
    engine.step()
    engine.session.end(old, TransferState.DONE)
    engine.step()
    assert [copy.generation for copy in engine.session.copies] == [engine.session.generation]
