"""What one call may name, and what a daemon takes: much is done in pieces, and nothing is left out."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from engines.driving import (
    LARGE,
    LONG,
    MOST_STEPS,
    PROMPT,
    SMALL,
    WINDOWED,
    full_keys,
    run,
    step_until,
    stored_keys,
)
from engines.engine import SimulatedEngine
from engines.request import Request, Stage
from kvstow.client import Hits, Refused, TransferState
from kvstow.client.engines.offload.finder import MOST_LOOKUPS, PROMISE_S

FEW_KEYS = 2


@pytest.fixture
def engine() -> SimulatedEngine:
    """At a daemon that takes few keys in one call."""
    engine = SimulatedEngine(LARGE)
    engine.session.faults.max_keys = FEW_KEYS
    return engine


def test_a_prompt_with_more_keys_than_a_call_may_name_is_found_and_loaded(
    engine: SimulatedEngine,
) -> None:
    run(engine, PROMPT)
    assert stored_keys(engine) == full_keys(PROMPT, 10)
    assert engine.pool.reset()
    again = engine.add(PROMPT, 0, False)
    engine.step()
    assert again.stage is Stage.LOADING
    assert again.num_computed_tokens == 10
    engine.step()
    assert [len(copy.items) for copy in engine.session.copies] == [2, 2, 1]
    step_until(engine, lambda: again.stage is Stage.OVER)
    assert engine.half.take_counts()["loaded_blocks"] == 5


def test_pieces_of_two_generations_are_not_joined(engine: SimulatedEngine) -> None:
    """Another engine resets the space between two lookups of a prompt, and stores its blocks anew."""
    run(engine, PROMPT)
    assert engine.pool.reset()
    again, lookup = engine.add(PROMPT, 0, False), engine.session.lookup

    def looked_up(request: str, *what: Any, **how: Any) -> Hits:
        hits = lookup(request, *what, **how)
        if len(engine.session.lookups) > asked + 1:
            newer = replace(hits.generation, number=hits.generation.number + 1)
            hits = replace(hits, generation=newer)
        return hits

    asked = len(engine.session.lookups)
    with patch.object(engine.session, "lookup", looked_up):
        assert engine.half.find(again, 0) == FEW_KEYS * LARGE.hash_tokens
    assert list(engine.session.leases) == [again.request_id]


def test_nothing_is_held_of_what_lies_behind_a_gap(engine: SimulatedEngine) -> None:
    run(engine, PROMPT)
    assert engine.pool.reset()
    assert engine.session.evict((0, PROMPT[:4]))
    again = engine.add(PROMPT, 0, False)
    engine.step()
    assert again.num_computed_tokens == 2
    assert not engine.session.leases, "they were used up or given back"


def test_a_request_that_the_engine_gives_fewer_tokens_keeps_no_more_than_these(
    engine: SimulatedEngine,
) -> None:
    run(engine, PROMPT)
    assert engine.pool.reset()
    request = Request("1 of 1", PROMPT, 0, False, [], len(PROMPT))
    request.hash(2)
    assert engine.half.find(request, 0) == 10
    assert len(engine.session.leases) == 3
    engine.half.admit(request, [[1]], 2)
    assert len(engine.session.leases) == 1
    engine.half.finish(request, [[1]])
    assert not engine.session.leases


def test_nothing_is_held_of_what_lies_behind_a_gap_in_a_window() -> None:
    engine = SimulatedEngine(WINDOWED)
    run(engine, PROMPT)
    assert engine.pool.reset()
    engine.session.faults.max_keys = 4
    assert engine.session.evict((1, PROMPT[:10]))
    assert engine.session.evict((1, PROMPT[:8]))
    engine.session.lookups.clear()
    again = engine.add(PROMPT, 0, False)
    engine.step()
    assert again.num_computed_tokens == 6
    assert len(engine.session.lookups) == 3
    engine.step()
    assert again.stage is Stage.LOADING
    assert not engine.session.leases
    step_until(engine, lambda: again.stage is Stage.OVER)


def test_a_lookup_that_finds_less_than_before_gives_back_the_rest(engine: SimulatedEngine) -> None:
    run(engine, PROMPT)
    assert engine.pool.reset()
    blocks = [engine.pool.take_new() for _ in range(len(engine.pool.free))]
    request = engine.add(PROMPT, 0, False)
    engine.step()
    del engine.session.stored[0, PROMPT[:2]]
    engine.now += PROMISE_S
    engine.step()
    assert not engine.session.leases
    engine.abort(request)
    engine.pool.give_back(blocks)


def test_a_load_that_is_refused_is_computed_and_holds_nothing(engine: SimulatedEngine) -> None:
    run(engine, PROMPT)
    assert engine.pool.reset()
    again = engine.add(PROMPT, 0, False)
    refusal = Refused("KEY_NOT_READY", "a key is not stored", "", {})
    with patch.object(engine.session, "load", side_effect=refusal):
        step_until(engine, lambda: again.stage is Stage.OVER)
    assert not engine.session.leases


def test_more_loads_than_the_daemon_takes_wait_for_their_turn() -> None:
    engine = SimulatedEngine(LARGE)
    prompts = [bytes([first, *PROMPT]) for first in range(10)]
    for prompt in prompts:
        run(engine, prompt)
    assert engine.pool.reset()
    engine.half.take_counts()
    engine.session.faults.max_transfers = 8
    again = [engine.add(prompt, 0, False) for prompt in prompts]
    engine.step()
    engine.step()
    assert len(engine.session.copies) == 2, "half is for stores, a quarter for reports"
    step_until(engine, lambda: all(request.stage is Stage.OVER for request in again))
    counts = engine.half.take_counts()
    assert counts["loaded_blocks"] == 10 * 5
    assert "failed_loads" not in counts


def test_a_load_of_many_parts_waits_until_all_fit_and_none_overtakes_it(
    engine: SimulatedEngine,
) -> None:
    long, short = [bytes([first, *PROMPT]) for first in range(2)], bytes([9, *PROMPT[:2]])
    for prompt in (*long, short):
        run(engine, prompt)
    assert engine.pool.reset()
    engine.half.take_counts()
    engine.session.faults.max_transfers = 16
    again = [engine.add(prompt, 0, False) for prompt in (*long, short)]
    engine.step()
    engine.step()
    assert len(engine.session.copies) == 3, "of four"
    step_until(engine, lambda: all(request.stage is Stage.OVER for request in again))
    counts = engine.half.take_counts()
    assert counts["loaded_blocks"] == 5 + 5 + 1
    assert "failed_loads" not in counts


def test_stores_that_do_not_end_leave_room_for_loads() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    engine.session.faults.max_transfers = 8
    writer = engine.add(bytes(range(50, 61)), 60, False)
    for _ in range(MOST_STEPS // 4):
        engine.step()
    assert len(engine.session.copies) == 4
    reader = engine.add(PROMPT, 0, False)
    engine.step()
    engine.step()
    assert len(engine.session.copies) == 5
    step_until(engine, lambda: reader.stage is writer.stage is Stage.OVER)
    assert "failed_loads" not in engine.half.take_counts()


@pytest.mark.parametrize("max_transfers", [1, 3])
def test_a_daemon_that_takes_few_transfers_is_asked_for_one_at_a_time(max_transfers: int) -> None:
    engine = SimulatedEngine(LARGE)
    engine.session.faults.max_transfers = max_transfers
    run(engine, PROMPT)
    assert stored_keys(engine) == full_keys(PROMPT, 10)
    assert engine.pool.reset()
    again = run(engine, PROMPT)
    assert again.num_computed_tokens >= 10
    assert engine.half.take_counts()["loaded_blocks"] == 5


def test_a_store_that_is_refused_is_made_later(engine: SimulatedEngine) -> None:
    request = engine.add(PROMPT, 60, False)
    refusal = Refused("NOT_ATTACHED", "a rank is missing", "", {})
    with patch.object(engine.session, "store", side_effect=refusal):
        step_until(engine, lambda: request.num_computed_tokens > 14)
    step_until(engine, lambda: full_keys(request.tokens, 14) <= stored_keys(engine))
    assert request.stage is Stage.RUNNING


def test_all_leases_of_a_request_are_given_back(engine: SimulatedEngine) -> None:
    run(engine, PROMPT)
    assert engine.pool.reset()
    blocks = [engine.pool.take_new() for _ in range(len(engine.pool.free))]
    request = engine.add(PROMPT, 0, False)
    engine.step()
    assert len(engine.session.leases) == 3
    engine.abort(request)
    assert not engine.session.leases
    engine.pool.give_back(blocks)


def test_a_part_that_fails_is_computed_with_all_behind_it(engine: SimulatedEngine) -> None:
    run(engine, PROMPT)
    assert engine.pool.reset()
    again = engine.add(PROMPT, 0, False)
    engine.step()
    engine.step()
    first, second, third = engine.session.copies
    engine.session.end(third, TransferState.DONE)
    engine.session.end(first, TransferState.DONE)
    engine.step()
    assert again.stage is Stage.LOADING, "a part is missing"
    engine.session.end(second, TransferState.FAILED, [1])
    engine.step()
    assert again.num_computed_tokens == 6
    step_until(engine, lambda: again.stage is Stage.OVER)


def test_what_is_too_long_for_all_lookups_is_found_in_part_and_counted(
    engine: SimulatedEngine,
) -> None:
    prompt = LONG * 2
    run(engine, prompt)
    assert engine.pool.reset()
    again = engine.add(prompt, 0, False)
    engine.step()
    assert again.num_computed_tokens == MOST_LOOKUPS * FEW_KEYS * 2
    assert engine.half.take_counts()["cut_lookups"] == 1


def test_lazily_too_it_is_offered_again() -> None:
    engine = SimulatedEngine(SMALL, lazy=True)
    engine.session.faults.busy = True
    run(engine, PROMPT)
    run(engine, bytes(range(100, 117)))
    assert not engine.session.stored
    engine.session.faults.busy = False
    step_until(engine, lambda: engine.session.stored)


def test_a_daemon_that_is_full_is_asked_less_and_less(engine: SimulatedEngine) -> None:
    engine.session.faults.full = True
    engine.add(PROMPT, 60, False)
    with patch.object(engine.session, "store", wraps=engine.session.store) as store:
        for _ in range(60):  # six seconds
            engine.step()
        assert 3 <= store.call_count <= 8
