"""A load is not sent while a step under way may still write its blocks."""

from engines.driving import LARGE, PROMPT, run
from engines.engine import SimulatedEngine
from engines.request import Request
from kvstow.client.engines.offload.engine import Written
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
