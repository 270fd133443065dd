"""Drives a simulated engine through a story, for tests that look at what became of it."""

from collections.abc import Callable

import pytest

from engines.engine import SimulatedEngine
from engines.request import Request, Stage
from kvstow.client.engines.offload.shape import GroupShape, Shape

SMALL = Shape((GroupShape(2),), hash_tokens=2, block_count=14)
LARGE = Shape((GroupShape(2),), hash_tokens=2, block_count=100)
WINDOWED = Shape((GroupShape(2), GroupShape(2, 5)), hash_tokens=2, block_count=100)
PROMPT = bytes(range(20, 31))
LONG = bytes(range(20, 61))
MOST_STEPS = 200


def step_until(engine: SimulatedEngine, condition: Callable[[], object]) -> None:
    """Step, and end copies well, until a condition holds."""
    for _ in range(MOST_STEPS):
        if condition():
            return
        engine.step()
        engine.end_copies()
    pytest.fail("it never came to this")


def run(engine: SimulatedEngine, tokens: bytes, generate: int = 0, skip: bool = False) -> Request:
    """Answer a request, and store what it leaves behind."""
    request = engine.add(tokens, generate, skip)
    step_until(engine, lambda: request.stage is Stage.OVER and not engine.half.is_busy())
    engine.step()
    return request


def stored_keys(engine: SimulatedEngine, group: int = 0) -> set[bytes]:
    """Keys that a lookup would find."""
    return {key for number, key in engine.session.stored if number == group}


def full_keys(tokens: bytes, computed: int) -> set[bytes]:
    """Keys of the blocks that are full with the first `computed` of these tokens."""
    return {tokens[:end] for end in range(2, computed + 1, 2)}
