"""A load is not sent while a step under way may still write its blocks."""

import pytest

from engines.driving import LARGE, PROMPT, full_keys, run, step_until, stored_keys
from engines.engine import SimulatedEngine
from engines.request import Request, Stage
from kvstow.client.engines.offload.engine import Written
from kvstow.client.engines.offload.shape import GroupShape, Shape
from kvstow.client.engines.offload.steps import Report


def test_a_load_waits_until_the_step_has_ended_that_zeroes_its_blocks() -> None:
    """Steps are planned ahead; on a GPU the zeroing is queued only."""
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    half, session = engine.half, engine.session
    request = Request("zeroed", PROMPT, 0, False, [], len(PROMPT))
    request.hash(2)
    assert half.find(request, 0) == 10
    table = [50, 51, 52, 53, 54]
    half.admit(request, [table], 10)
    zeroing = half.step(Written(zeroed=(52,)))
    assert not session.copies
    half.hear(Report(zeroing.number - 1, session.attach()))
    following = half.step(Written())
    assert not session.copies, "the step before has not ended"
    half.hear(Report(zeroing.number, session.attach()))
    half.step(Written())
    assert [copy.blocks for copy in session.copies] == [set(table)]
    half.hear(Report(following.number, session.attach()))


@pytest.mark.parametrize("aborted", [False, True], ids=["preempted", "aborted"])
def test_a_load_waits_until_the_step_has_ended_that_may_write_its_blocks_for_another(
    aborted: bool,
) -> None:
    """Steps are planned ahead, and a request loses its blocks to a load while one is under way."""
    shape = Shape((GroupShape(2),), hash_tokens=2, block_count=7)
    engine = SimulatedEngine(shape, ahead=True, defers=False)
    run(engine, PROMPT)
    assert engine.pool.reset()
    first = engine.add(bytes(range(100, 110)), 0, False)
    step_until(engine, lambda: first.num_in_flight_tokens)
    written = set(first.tables[0])
    second = engine.add(PROMPT, 0, False)
    if aborted:
        engine.abort(first)
    else:
        engine.preempt_all()
    engine.step()
    assert second.stage is Stage.LOADING
    assert written & set(second.tables[0])
    step_until(engine, lambda: not engine.is_busy)
    assert full_keys(PROMPT, 10) <= stored_keys(engine)
