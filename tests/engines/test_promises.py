"""What the connector's halves promise beyond safety: what is stored, when, and how often is asked."""

from unittest.mock import patch

import pytest

from engines.copies import Faults
from engines.driving import (
    LARGE,
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
from engines.request import Stage
from kvstow.client import TransferState
from kvstow.client.engines.offload.loads import PATIENCE_S


@pytest.mark.parametrize("length", range(1, 14))
@pytest.mark.parametrize("generate", [0, 1, 5])
def test_every_computed_block_is_stored(length: int, generate: int) -> None:
    """Whatever the sizes of the steps; the last token is never computed."""
    engine = SimulatedEngine(LARGE)
    request = run(engine, bytes(range(length)), generate)
    assert stored_keys(engine) == full_keys(request.tokens, length + generate)


def test_a_prefix_comes_back_into_an_engine_that_has_forgotten_it() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    again = engine.add(PROMPT, 0, False)
    engine.step()
    assert again.stage is Stage.LOADING
    assert again.num_computed_tokens == 10


def test_windows_store_and_load_what_is_in_the_window() -> None:
    engine = SimulatedEngine(WINDOWED)
    run(engine, PROMPT)
    assert engine.pool.reset()
    again = engine.add(PROMPT, 0, False)
    engine.step()
    assert again.num_computed_tokens == 10
    assert [block != 0 for block in again.tables[1]] == [False, False, False, True, True]


def test_one_transfer_a_step_whatever_the_number_of_requests() -> None:
    engine = SimulatedEngine(LARGE)
    with patch.object(engine.session, "store", wraps=engine.session.store) as store:
        for first in range(3):
            engine.add(bytes([first, 1]), 0, False)
        engine.step()
        assert store.call_count == 0, "nothing is computed yet"
        engine.step()
        assert store.call_count == 1
        assert len(store.call_args.args[0][0]) == 3


@pytest.mark.parametrize("faults", [Faults(full=True), Faults(busy=True)], ids=["full", "busy"])
def test_what_was_refused_is_offered_again_while_the_request_runs(faults: Faults) -> None:
    engine = SimulatedEngine(LARGE)
    engine.session.faults = faults
    request = engine.add(PROMPT, 60, False)
    step_until(engine, lambda: request.num_computed_tokens > 14)
    assert not engine.session.stored
    engine.session.faults = Faults()
    step_until(engine, lambda: full_keys(request.tokens, 14) <= stored_keys(engine))
    assert request.stage is Stage.RUNNING


def test_what_failed_is_offered_again() -> None:
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 60, False)
    step = 0
    while not engine.session.copies:
        engine.step()
        step += 1
    engine.session.end(engine.session.copies[0], TransferState.FAILED, [0])
    step_until(engine, lambda: full_keys(request.tokens, 12) <= stored_keys(engine))


def test_what_was_evicted_is_offered_again_in_the_end() -> None:
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 20, False)
    step_until(engine, lambda: request.num_computed_tokens > 14)
    for name in list(engine.session.stored):
        assert engine.session.evict(name)
    step_until(engine, lambda: request.stage is Stage.OVER and not engine.half.is_busy())
    assert stored_keys(engine) == full_keys(request.tokens, 30)


def test_blocks_that_are_used_again_are_offered_again() -> None:
    engine = SimulatedEngine(SMALL)
    run(engine, PROMPT, 12)
    request = engine.add(bytes(range(100, 120)), 4, False)
    step_until(engine, lambda: full_keys(request.tokens, 18) <= stored_keys(engine))
    assert request.stage is Stage.RUNNING


def test_what_cannot_be_sent_is_dropped_with_its_block() -> None:
    """While ranks are not attached yet, a block may get another content."""
    engine = SimulatedEngine(SMALL)
    engine.session.faults.slow = True
    first = engine.add(PROMPT, 0, False)
    second = engine.add(bytes(range(100, 120)), 0, False)
    step_until(engine, lambda: first.stage is second.stage is Stage.OVER)
    engine.session.faults.slow = False
    step_until(engine, lambda: not engine.half.is_busy())
    assert full_keys(second.tokens, 20) <= stored_keys(engine)


def test_what_is_computed_again_after_a_preemption_is_offered_again() -> None:
    """What the daemon has evicted meanwhile, not only when the request ends."""
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 60, False)
    step_until(engine, lambda: request.num_computed_tokens > 14)
    for name in list(engine.session.stored):
        assert engine.session.evict(name)
    engine.preempt_all()
    assert engine.pool.reset()
    step_until(engine, lambda: full_keys(request.tokens, 14) <= stored_keys(engine))
    assert request.stage is Stage.RUNNING


def test_what_was_declined_is_not_offered_again_by_the_same_request() -> None:
    """It would count as another sight of the key."""
    engine = SimulatedEngine(LARGE)
    engine.session.faults.picky = True
    run(engine, PROMPT, 4)
    assert not engine.session.stored
    assert engine.pool.reset()
    again = run(engine, PROMPT, 4)
    assert stored_keys(engine) == full_keys(again.tokens, 14)


def test_after_a_restart_of_the_daemon_all_is_stored_again() -> None:
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 30, False)
    step_until(engine, lambda: request.num_computed_tokens > 14)
    engine.session.die()
    for _ in range(3):
        engine.step()
    engine.session.come_back()
    step_until(engine, lambda: full_keys(request.tokens, 18) <= stored_keys(engine))
    assert request.stage is Stage.RUNNING


def test_what_was_loaded_before_a_restart_of_the_daemon_is_stored_again() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    request = engine.add(PROMPT, 30, False)
    while not engine.session.copies:
        engine.step()
    engine.end_copies()
    engine.session.die()
    engine.session.come_back()
    step_until(engine, lambda: full_keys(PROMPT, 10) <= stored_keys(engine))
    assert request.stage is Stage.RUNNING


def test_a_request_that_runs_across_a_reset_stores_only_what_comes_after_it() -> None:
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 20, False)
    step_until(engine, lambda: request.num_computed_tokens == 15)
    assert engine.reset(running=False) is False, "blocks are in use"
    step_until(engine, lambda: request.stage is Stage.OVER and not engine.half.is_busy())
    assert stored_keys(engine) == full_keys(request.tokens, 30) - full_keys(request.tokens, 16)


def test_a_reset_does_not_wait_for_the_stores_it_made_void() -> None:
    """The same keys are stored anew while the copies of the old ones still run."""
    engine = SimulatedEngine(LARGE)
    request = engine.add(PROMPT, 20, False)
    while not engine.session.copies:
        engine.step()
    old = set(map(id, engine.session.copies))
    assert engine.reset(running=True)
    for _ in range(MOST_STEPS):
        engine.step()
        for copy in [copy for copy in engine.session.copies if id(copy) not in old]:
            engine.session.end(copy, TransferState.DONE)
    assert {id(copy) for copy in engine.session.copies} == old
    assert stored_keys(engine) == full_keys(request.tokens, 30)


def test_a_request_that_must_not_read_asks_nothing_and_stores() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT, skip=True)
    assert not engine.session.lookups
    assert stored_keys(engine) == full_keys(PROMPT, 10)


def test_the_daemon_is_not_asked_again_while_a_request_cannot_be_admitted() -> None:
    engine = SimulatedEngine(SMALL)
    run(engine, PROMPT)
    assert engine.pool.reset()
    blocks = [engine.pool.take_new() for _ in range(len(engine.pool.free))]
    engine.session.lookups.clear()
    request = engine.add(PROMPT, 0, False)
    for _ in range(5):
        engine.step()
    assert engine.session.lookups == [request.request_id]
    assert request.request_id in engine.session.leases
    engine.abort(request)
    assert not engine.session.leases
    engine.pool.give_back(blocks)


def test_a_miss_is_believed_for_some_steps_but_not_across_a_restart() -> None:
    engine = SimulatedEngine(SMALL)
    blocks = [engine.pool.take_new() for _ in range(len(engine.pool.free))]
    request = engine.add(PROMPT, 0, False)
    for _ in range(9):
        engine.step()
    assert 2 <= len(engine.session.lookups) <= 4
    engine.session.die()
    engine.session.come_back()
    engine.session.lookups.clear()
    engine.step()
    assert engine.session.lookups == [request.request_id]
    engine.pool.give_back(blocks)


def test_a_request_whose_load_failed_reads_nothing_any_more() -> None:
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    engine.session.lookups.clear()
    request = engine.add(PROMPT, 0, False)
    engine.step()
    engine.step()
    (load,) = engine.session.copies
    engine.session.end(load, TransferState.FAILED, [0])
    step_until(engine, lambda: request.stage is Stage.OVER)
    assert engine.session.lookups == [request.request_id]


@pytest.mark.parametrize("during_the_step", [False, True])
def test_two_requests_do_not_load_the_same(during_the_step: bool) -> None:
    """Whether the copy ends between two steps, or while the workers are at work on one."""
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    first, second = engine.add(PROMPT, 0, False), engine.add(PROMPT, 0, False)
    engine.step()
    assert (first.stage, second.stage) == (Stage.LOADING, Stage.WAITING)
    engine.session.faults.quick = during_the_step
    with patch.object(engine.session, "load", wraps=engine.session.load) as load:
        step_until(engine, lambda: second.stage is Stage.OVER)
        assert load.call_count == 0


def test_a_request_waits_for_another_from_when_that_was_admitted() -> None:
    """However long ago it was found what that one loads."""
    engine = SimulatedEngine(LARGE)
    run(engine, PROMPT)
    assert engine.pool.reset()
    blocks = [engine.pool.take_new() for _ in range(len(engine.pool.free))]
    first = engine.add(PROMPT, 0, False)
    engine.step()
    engine.now += PATIENCE_S
    engine.pool.give_back(blocks)
    second = engine.add(PROMPT, 0, False)
    engine.step()
    assert (first.stage, second.stage) == (Stage.LOADING, Stage.WAITING)


def test_lazily_nothing_is_stored_before_it_is_about_to_be_evicted() -> None:
    engine = SimulatedEngine(LARGE, lazy=True)
    run(engine, PROMPT)
    assert not engine.session.stored


def test_lazily_what_was_evicted_comes_back() -> None:
    engine = SimulatedEngine(SMALL, lazy=True)
    run(engine, PROMPT)
    for first in range(3):
        run(engine, bytes(range(100 + 30 * first, 118 + 30 * first)))
    again = engine.add(PROMPT, 0, False)
    step_until(engine, lambda: again.stage is Stage.LOADING)
    assert again.num_computed_tokens == 10
