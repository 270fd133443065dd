"""Nothing is stored that was not computed, although the engine has named it."""

import pytest

from engines.driving import LARGE, PROMPT, full_keys, run, step_until, stored_keys
from engines.engine import SimulatedEngine
from engines.manners import STEP_TOKENS
from engines.request import Stage
from kvstow.client.engines.offload.shape import GroupShape, Shape


def misnamed(engine: SimulatedEngine) -> list[int]:
    """Blocks that nobody uses and that do not hold what they are named for."""
    return [
        block
        for block, name in engine.pool.names.items()
        if block in engine.pool.free and engine.memory.content[block][:2] != name
    ]


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_what_was_named_but_not_computed_is_never_stored(lazy: bool) -> None:
    """A request is scheduled, and loses its blocks to a more urgent one in the same step; they keep their names, and
    other requests are built on them.
    """
    shape = Shape((GroupShape(2),), hash_tokens=2, block_count=12)
    engine = SimulatedEngine(shape, lazy, urgent_first=True)
    run(engine, bytes(range(60, 80)))  # so that every block was in use before
    victim = engine.add(bytes(range(20, 40)), 0, False)
    engine.add(bytes(range(100, 106)), 1, False, urgency=1)
    step_until(engine, lambda: misnamed(engine))
    block = misnamed(engine)[0]
    step_until(engine, lambda: victim.stage is Stage.RUNNING)
    assert block in victim.tables[0], "it begins with what it never computed"
    step_until(engine, lambda: not engine.is_busy)
    run(engine, bytes(range(60, 80)))
    assert engine.session.stored
    assert all(content[:2] == name for name, content in engine.session.stored.items())


def test_what_an_aborted_request_still_computed_is_a_ground_for_others() -> None:
    """Steps are planned ahead: it is over before the step has ended that computes its blocks. They are named and shared."""
    engine = SimulatedEngine(LARGE, ahead=True)
    first = engine.add(PROMPT + bytes(range(40, 60)), 0, False)
    step_until(engine, lambda: first.num_computed_tokens == 2 * STEP_TOKENS)
    assert first.num_in_flight_tokens == STEP_TOKENS
    engine.abort(first)
    second = run(engine, PROMPT + bytes(range(70, 80)))
    assert stored_keys(engine) == full_keys(second.tokens, 20)
