"""A reset is right at once, whatever is being copied, and no memory is reused under a copy."""

import threading
from collections.abc import Callable

import pytest

from kvstow.server.core.errors import StaleGeneration
from kvstow.server.core.events import ResetDrained, SpaceReset
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.types import ResetResult, TransferPlan, TransferState
from support.daemons import Rig, running_daemon
from support.engine import Engine, identity, keys
from support.machines import Machine
from support.waiting import wait_for

OLD, NEW = keys(1, 2, 3, 4), keys(5, 6, 7, 8)
BLOCKS = [0, 1, 2, 3]

Reset = Callable[[Rig, Engine, float], ResetResult]
RESETS: dict[str, Reset] = {
    "by an engine": lambda rig, engine, wait_s: rig.daemon.reset(engine.session, wait_s),
    "of one space": lambda rig, engine, wait_s: rig.daemon.reset_space(engine.space, wait_s),
    "of all spaces": lambda rig, engine, wait_s: rig.daemon.reset_all(wait_s)[engine.space],
}


@pytest.fixture(params=RESETS)
def reset(request: pytest.FixtureRequest) -> Reset:
    """A way to reset the space of an engine, and to wait for what that has abandoned."""
    return RESETS[request.param]


def slots(plan: TransferPlan) -> set[int]:
    return {slot for copies in plan.copies for slot in copies.slots}


def drained(engine: Engine) -> list[int]:
    return [event.generation for event in engine.events() if isinstance(event, ResetDrained)]


def test_a_held_store_keeps_its_slots_over_a_reset_until_its_copy_has_ended(
    machine: Machine,
) -> None:
    with running_daemon(machine=machine, blocks=4) as rig:
        engine = Engine(rig.daemon, rig.place)
        let_go = rig.hold(count=1)
        held = engine.begin_store(OLD, BLOCKS)
        rig.wait_held(1)

        result = rig.daemon.reset(engine.session, 0)
        rig.daemon.check()
        assert (result.generation, result.abandoned_stores, result.drained) == (2, 1, False)
        engine.generation = result.generation
        refused = engine.begin_store(NEW, [4, 5, 6, 7])
        assert refused.statuses == "NNNN"
        assert not engine.reports(held.transfer)

        let_go()
        assert engine.ended(held.transfer).state is TransferState.ABANDONED
        assert engine.hits(OLD).hit_count == 0
        after = engine.begin_store(NEW, [4, 5, 6, 7])
        assert slots(after) == slots(held)
        engine.ended(after.transfer)
        engine.load(NEW, BLOCKS)


def test_a_held_load_keeps_its_slots_over_a_reset_until_its_copy_has_ended(
    machine: Machine,
) -> None:
    with running_daemon(machine=machine, blocks=4) as rig:
        engine = Engine(rig.daemon, rig.place)
        engine.store(OLD, BLOCKS)
        let_go = rig.hold(count=1)
        held = engine.begin_load(OLD, [4, 5, 6, 7])
        rig.wait_held(1)

        result = rig.daemon.reset(engine.session, 0)
        rig.daemon.check()
        assert (result.abandoned_loads, result.dropped_count) == (1, 4)
        engine.generation = result.generation
        assert engine.hits(OLD).hit_count == 0
        assert engine.begin_store(NEW, BLOCKS).statuses == "NNNN"

        let_go()
        assert engine.ended(held.transfer).state is TransferState.ABANDONED
        engine.store(NEW, BLOCKS)


def test_what_a_store_took_before_the_reset_is_not_mixed_with_what_comes_after(
    machine: Machine,
) -> None:
    with running_daemon(machine=machine, blocks=8) as rig:
        engine = Engine(rig.daemon, rig.place)
        let_go = rig.hold(count=1)
        held = engine.begin_store(OLD, BLOCKS)
        rig.wait_held(1)
        engine.generation = rig.daemon.reset(engine.session, 0).generation
        fresh = engine.begin_store(OLD, [4, 5, 6, 7])  # the same keys, in the new generation
        assert fresh.statuses == "AAAA"
        assert not slots(fresh) & slots(held)
        engine.ended(fresh.transfer)
        let_go()
        engine.ended(held.transfer)
        engine.load(OLD, [8, 9, 10, 11])


def test_resets_while_one_drains_are_legal_truthful_and_drained_once_each(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    held = engine.begin_store(OLD, BLOCKS)
    rig.wait_held(1)
    for generation in (2, 3, 4):
        result = rig.daemon.reset(engine.session, 0)
        rig.daemon.check()
        assert (result.generation, result.abandoned_stores) == (generation, 1)
        engine.generation = generation
        assert engine.hits(OLD).hit_count == 0
    assert drained(engine) == []
    let_go()
    engine.ended(held.transfer)
    wait_for(lambda: len(drained(engine)) == 3, "three drained resets")
    assert drained(engine) == [2, 3, 4]
    assert [e.generation for e in engine.events() if isinstance(e, SpaceReset)] == [2, 3, 4]


def test_the_wait_budget_of_a_reset_ends_it_with_what_is_left(rig: Rig, reset: Reset) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    held = engine.begin_store(OLD, BLOCKS)
    rig.wait_held(1)
    result = reset(rig, engine, 0.05)
    rig.daemon.check()
    assert (result.abandoned_stores, result.drained) == (1, False)
    let_go()
    result = reset(rig, engine, 3600)
    assert result.drained
    engine.ended(held.transfer)


def test_a_reset_that_waits_returns_when_the_last_copy_has_ended(rig: Rig, reset: Reset) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    plan = engine.begin_store(OLD, BLOCKS)
    rig.wait_held(1)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(reset(rig, engine, 3600).drained))
    waiting.start()
    wait_for(lambda: rig.daemon.snapshot().spaces[0].generation == 2, "the reset")
    rig.daemon.check()
    assert not answers
    let_go()
    waiting.join(60)
    assert answers == [True]
    assert engine.ended(plan.transfer).state is TransferState.ABANDONED


def test_a_reset_of_all_spaces_waits_for_the_last_of_them(rig: Rig) -> None:
    engines = [Engine(rig.daemon, rig.place, identity(model=model)) for model in "ab"]
    let_go = [rig.hold(session=engine.session, count=1) for engine in engines]
    held = [engine.begin_store(keys(1, 2), [0, 1]) for engine in engines]
    rig.wait_held(2)
    answers: list[list[bool]] = []
    waiting = threading.Thread(
        target=lambda: answers.append(
            [found.drained for found in rig.daemon.reset_all(3600).values()]
        )
    )
    waiting.start()
    for engine, plan, release in zip(engines, held, let_go, strict=True):
        wait_for(lambda: SpaceReset(2) in engine.events(), "the reset")  # noqa: B023
        rig.daemon.check()
        assert not answers
        release()
        assert engine.ended(plan.transfer).state is TransferState.ABANDONED
    waiting.join(60)
    assert answers == [[True, True]]


def test_store_and_reset_in_turn_are_never_refused(machine: Machine) -> None:
    """The report has come: nothing is left of the store, and the whole pool is free for the next one."""
    with running_daemon(machine=machine, blocks=4) as rig:
        engine = Engine(rig.daemon, rig.place)
        for generation in range(1, 201):
            assert engine.generation == generation
            engine.store(OLD, BLOCKS)
            result = rig.daemon.reset(engine.session, 0)
            rig.daemon.check()
            assert (result.dropped_count, result.drained) == (4, True)
            engine.generation = result.generation
        assert drained(engine) == list(range(2, 202))


def test_a_delayed_store_of_the_old_generation_is_refused(rig: Rig) -> None:
    slow, other = Engine(rig.daemon, rig.place), Engine(rig.daemon, rig.place)
    rig.daemon.reset(other.session, 0)
    with pytest.raises(StaleGeneration) as refused:
        slow.begin_store(OLD, BLOCKS)
    rig.daemon.check()
    assert refused.value.facts["generation"] == "2"
    wait_for(lambda: SpaceReset(2) in slow.events(), "the news of the reset")


def test_all_spaces_are_reset_in_one_step(rig: Rig) -> None:
    engines = [Engine(rig.daemon, rig.place, identity(model=model)) for model in "ab"]
    for engine in engines:
        engine.store(keys(1, 2), [0, 1])
    results = rig.daemon.reset_all(0)
    rig.daemon.check()
    assert {space: result.dropped_count for space, result in results.items()} == {
        engine.space: 2 for engine in engines
    }
    for engine in engines:
        engine.generation = results[engine.space].generation
        assert engine.hits(keys(1, 2)).hit_count == 0


def test_dropped_slots_are_taken_back_without_being_asked_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[bool] = []
    sweep = Ledger.sweep

    def watched(ledger: Ledger) -> bool:
        left.append(sweep(ledger))
        return left[-1]

    engine = Engine(rig.daemon, rig.place)
    engine.store(OLD, BLOCKS)
    monkeypatch.setattr(Ledger, "sweep", watched)
    rig.daemon.reset(engine.session, 0)
    wait_for(lambda: True in left and not left[-1], "the end of the sweep")
    rig.daemon.check()
