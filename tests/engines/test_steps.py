"""What one step of an engine may cost: much is looked at and offered in pieces, and nothing is left out."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from engines.driving import LARGE, LONG, MOST_STEPS, full_keys, step_until, stored_keys
from engines.engine import SimulatedEngine
from engines.request import Stage
from kvstow.client.engines.offload import collector, stores
from kvstow.client.engines.offload.blocks import EngineBlocks


@pytest.fixture
def small_steps() -> Iterator[int]:
    """Few blocks are looked at, and fewer offered, in one step."""
    with patch.object(collector, "LOOK_BLOCKS", 3), patch.object(stores, "STEP_KEYS", 2):
        yield 2


def most_offered(engine: SimulatedEngine) -> int:
    """Steps until the engine has stored all; returns how many keys were offered at most in one step."""
    most, look = 0, EngineBlocks.may_be_stored
    with (
        patch.object(engine.session, "store", wraps=engine.session.store) as store,
        patch.object(EngineBlocks, "may_be_stored", autospec=True, side_effect=look) as looks,
    ):
        for _ in range(MOST_STEPS):
            store.reset_mock()
            looks.reset_mock()
            engine.step()
            assert looks.call_count <= collector.LOOK_BLOCKS
            most = max(most, *(len(call.args[0][0]) for call in store.call_args_list), 0)
            engine.end_copies()
            assert store.call_count <= 1
            if not engine.is_busy:
                return most
    pytest.fail("it never came to an end")


def test_what_an_ended_request_has_left_is_offered_in_pieces(small_steps: int) -> None:
    engine = SimulatedEngine(LARGE)
    engine.session.faults.full = True
    request = engine.add(LONG, 0, False)
    step_until(engine, lambda: request.stage is Stage.OVER)
    engine.session.faults.full = False
    assert most_offered(engine) == small_steps
    assert stored_keys(engine) == full_keys(LONG, 40)


def test_after_a_restart_a_long_request_is_looked_through_in_pieces(small_steps: int) -> None:
    engine = SimulatedEngine(LARGE)
    request = engine.add(LONG, 30, False)
    step_until(engine, lambda: request.num_computed_tokens > 41)
    engine.session.die()
    engine.session.come_back()
    assert most_offered(engine) == small_steps
    assert stored_keys(engine) == full_keys(request.tokens, 70)
