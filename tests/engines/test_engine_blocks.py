"""What is known of a block, and when that is forgotten."""

import pytest

from engines.driving import LARGE, PROMPT, run
from engines.engine import SimulatedEngine
from engines.request import Request
from kvstow.client.engines.offload.blocks import EngineBlocks

NAME = (0, b"key")
OLD, NEW = 1, 2


@pytest.fixture
def blocks() -> EngineBlocks:
    """Block 1 holds what it is named for, since the older epoch."""
    blocks = EngineBlocks(4)
    blocks.hand_out([1], OLD, 1)
    blocks.confirm([(1, NAME)])
    assert blocks.may_be_stored(1, NAME, OLD)
    return blocks


def test_what_a_block_held_is_forgotten_when_it_is_handed_out(blocks: EngineBlocks) -> None:
    """Also if it is given the same name again: perhaps nothing is computed into it."""
    blocks.hand_out([1], OLD, 2)
    assert not blocks.may_be_stored(1, NAME, OLD)
    assert not blocks.are_confirmed([(1, NAME)])


def test_a_copy_is_as_old_as_the_other(blocks: EngineBlocks) -> None:
    blocks.hand_out([2], NEW, 2, {2: 1})
    blocks.confirm([(2, NAME)])
    assert not blocks.may_be_stored(2, NAME, NEW)
    assert blocks.may_be_stored(2, NAME, OLD)


def test_what_was_found_before_a_reset_of_another_is_not_promised_any_more() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    request = Request("waits", PROMPT, 0, False, [], len(PROMPT))
    request.hash(2)
    assert engine.half.find(request, 0) == 10
    engine.session.reset_by_another()
    assert engine.half.find(request, 0) == 0
