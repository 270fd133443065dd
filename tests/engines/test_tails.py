"""Whatever the pool has lost of a prefix, it has lost from its end: before the daemon's own books and policies."""

import gc
import weakref
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.driving import (
    LARGE,
    MOST_STEPS,
    PROMPT,
    SMALL,
    full_keys,
    run,
    step_until,
    stored_keys,
)
from engines.engine import SimulatedEngine
from engines.evicting import EvictingSession
from engines.request import Request, Stage
from kvstow.client.engines.offload.collector import PATIENCE_S
from kvstow.server.core.policy import POLICY_NAMES

LONG = bytes(range(20, 61))
"""20 blocks, computed in 7 steps, of which a call may name six."""

OTHER = bytes(range(100, 113))
SLOT_COUNT = 24


@pytest.fixture(params=POLICY_NAMES)
def make_engine(request: pytest.FixtureRequest) -> Iterator[type[SimulatedEngine]]:
    """Engines at a pool that is a little larger than the long prompt."""
    session = partial(EvictingSession, slot_count=SLOT_COUNT, policy=request.param)
    with patch("engines.engine.SimulatedSession", session):
        yield SimulatedEngine


def leading_count(engine: SimulatedEngine, tokens: bytes) -> int:
    """How many leading blocks of a prompt are stored; none may be stored behind them."""
    stored = stored_keys(engine)
    keys = [tokens[:end] for end in range(2, len(tokens) + 1, 2)]
    count = len(list(takewhile(stored.__contains__, keys)))
    assert stored & full_keys(tokens, len(tokens)) == full_keys(tokens, 2 * count)
    return count


def fill(engine: SimulatedEngine, count: int) -> None:
    """Store so many blocks of others, all at once."""
    assert isinstance(engine.session, EvictingSession)
    engine.session.store_others(count)


def test_a_prompt_that_was_stored_in_many_steps_is_evicted_from_its_end(
    make_engine: type[SimulatedEngine],
) -> None:
    engine = make_engine(LARGE)
    run(engine, LONG)
    assert leading_count(engine, LONG) == 20
    run(engine, OTHER)
    assert leading_count(engine, OTHER) == 6
    assert leading_count(engine, LONG) == SLOT_COUNT - 6


def test_of_a_prompt_larger_than_the_pool_the_beginning_is_kept(
    make_engine: type[SimulatedEngine],
) -> None:
    engine = make_engine(LARGE)
    run(engine, LONG + OTHER)
    assert leading_count(engine, LONG + OTHER) == SLOT_COUNT


def test_a_prompt_that_is_given_up_while_its_end_waits_to_be_sent(
    make_engine: type[SimulatedEngine],
) -> None:
    engine = make_engine(LARGE)
    request = engine.add(PROMPT[:8], 20, False)
    step_until(engine, lambda: request.num_computed_tokens == 8)
    engine.abort(request)
    engine.step()
    engine.end_copies()
    assert leading_count(engine, request.tokens) == 4
    fill(engine, SLOT_COUNT - 2)
    assert leading_count(engine, request.tokens) == 2


def computed(engine: SimulatedEngine) -> Request:
    """A request whose prompt is computed, and not all of it stored."""
    request = engine.add(PROMPT, 20, False)
    step_until(engine, lambda: request.num_computed_tokens >= len(PROMPT))
    return request


def test_a_request_that_is_over_is_not_kept_until_its_blocks_are_offered() -> None:
    engine = SimulatedEngine(LARGE)
    kept = weakref.ref(computed(engine))
    engine.abort(engine.requests.popitem()[1])
    gc.collect()
    assert kept() is None
    assert stored_keys(engine) < full_keys(PROMPT, len(PROMPT)), "nothing is left to be offered"
    step_until(engine, lambda: stored_keys(engine) == full_keys(PROMPT, len(PROMPT)))


def test_lazily_too_the_end_of_a_prompt_is_evicted_before_its_beginning(
    make_engine: type[SimulatedEngine],
) -> None:
    engine = make_engine(SMALL, lazy=True)
    run(engine, PROMPT)
    run(engine, bytes(range(100, 125)))
    assert leading_count(engine, PROMPT) == 5
    later_count = len(stored_keys(engine)) - 5
    fill(engine, SLOT_COUNT - later_count - 2)
    assert leading_count(engine, PROMPT) == 2


def test_what_is_offered_again_is_named_with_what_stands_before_it() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.session.evict((0, PROMPT[:8]))
    assert engine.session.evict((0, PROMPT[:10]))
    engine.session.faults.busy = True
    run(engine, PROMPT)
    engine.session.faults.busy = False
    with patch.object(engine.session, "store", wraps=engine.session.store) as store:
        step_until(engine, lambda: full_keys(PROMPT, 10) == stored_keys(engine))
    assert [call.args[0][0] for call in store.call_args_list] == [
        [PROMPT[:end] for end in range(2, 11, 2)]
    ]


@settings(deadline=None, max_examples=40)
@given(
    prompts=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 12), st.integers(1, 14)), max_size=12
    ),
    slot_count=st.integers(6, 40),
)
def test_with_lru_nothing_is_kept_without_what_stands_before_it(
    prompts: list[tuple[int, int, int]], slot_count: int
) -> None:
    session = partial(EvictingSession, slot_count=slot_count, policy="lru")
    with patch("engines.engine.SimulatedSession", session):
        engine = SimulatedEngine(LARGE)
    before = [b""]  # prompts so far; each begins like one of the last ones, or anew
    for number, (back, kept, fresh_count) in enumerate(prompts):
        kept_tokens = before[-1 - back % len(before)][: 2 * kept]
        before.append(kept_tokens + bytes(50 + number for _ in range(2 * fresh_count)))
        run(engine, before[-1])
        engine.end_copies()
        for tokens in before:
            leading_count(engine, tokens)
    engine.half.close(0)


def test_what_a_request_computed_last_does_not_wait_for_what_is_being_copied() -> None:
    """Its blocks may be used again at once."""
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 0, False)
    while request.stage is not Stage.OVER:
        engine.step()
    engine.step()
    offered = [[key for (_, key), _ in copy.items] for copy in engine.session.copies]
    keys = [PROMPT[:end] for end in range(2, 11, 2)]
    assert offered == [keys[:3], keys[3:]]
    step_until(engine, lambda: not engine.half.is_busy())


def test_an_engine_is_not_kept_busy_for_long_by_a_copy_that_does_not_end() -> None:
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 0, False)
    for _ in range(MOST_STEPS):
        engine.step()
        if request.stage is Stage.OVER:
            break
    assert engine.session.copies
    assert engine.half.is_busy()
    engine.now += PATIENCE_S
    engine.step()
    assert not engine.half.is_busy()
    engine.end_copies()
    step_until(engine, lambda: not engine.half.is_busy())
