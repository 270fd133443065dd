"""Resets by others that nobody here could hear of, behind a generation that looks the same."""

from collections.abc import Callable

import pytest

from engines.driving import LARGE, PROMPT, full_keys, step_until, stored_keys
from engines.engine import SimulatedEngine
from engines.request import Stage
from kvstow.client import Generation
from kvstow.client.vigil import FIRST_GENERATION


def unheard_restart(engine: SimulatedEngine) -> None:
    """Others reset the space unheard, and the daemon is started again."""
    engine.session.die()
    engine.session.come_back(unheard=True)


def another_space(engine: SimulatedEngine) -> None:
    """Others reset the space and leave, and the daemon forgets that it was there."""
    engine.session.come_back_to_another_space()


def another_space_and_a_restart(engine: SimulatedEngine) -> None:
    """The same, and then the daemon is started again, while the engine takes no step."""
    another_space(engine)
    engine.session.die()
    engine.session.come_back()


@pytest.mark.parametrize("lose", [unheard_restart, another_space, another_space_and_a_restart])
def test_what_may_be_older_than_an_unheard_reset_is_not_stored(
    lose: Callable[[SimulatedEngine], None],
) -> None:
    """Although the generation has the number that the engine knows."""
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 20, False)
    step_until(engine, lambda: request.num_computed_tokens == 15)
    known = engine.session.generation.number
    lose(engine)
    assert engine.session.generation.number == known
    step_until(engine, lambda: request.stage is Stage.OVER and not engine.half.is_busy())
    assert stored_keys(engine) == full_keys(request.tokens, 30) - full_keys(request.tokens, 16)


@pytest.mark.parametrize("resets", [0, 1])
def test_what_was_computed_before_the_first_opening(resets: int) -> None:
    """An engine that starts before the daemon hears of no reset; the generation tells of it."""
    engine = SimulatedEngine(LARGE)
    engine.session.die()
    request = engine.add(PROMPT, 20, False)
    step_until(engine, lambda: request.num_computed_tokens == 15)
    engine.session.come_back()
    number = FIRST_GENERATION + resets
    engine.session.generation = Generation(engine.session.generation.era, number)
    engine.memory.version += resets
    step_until(engine, lambda: request.stage is Stage.OVER and not engine.half.is_busy())
    older = full_keys(request.tokens, 16) if resets else set()
    assert stored_keys(engine) == full_keys(request.tokens, 30) - older
