"""What the wrapper does to the copies that its rules meet, and that it leaves all others alone."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from unittest.mock import DEFAULT, patch

import numpy as np
import pytest

from device.rig import (
    SESSION,
    EngineMemory,
    Recorder,
    Rig,
    blocks_in_a_row,
    make_copy,
    random_bytes,
)
from kvstow.server.device.base import DeviceError, Direction, Region
from kvstow.server.device.faults import Delay, Fail, FaultRule, FaultyDevice, Hold, RuleId
from support.waiting import DEADLINE_S, wait_for

BLOCK_BYTES = 64
BLOCK_COUNT = 4
AN_HOUR_S = 3600.0


class World:
    """A faulty device and engine memory of a few blocks that a store copies to the start of the pool."""

    def __init__(self, rig: Rig) -> None:
        self.pool = rig.pool
        self.inner = rig.device
        self.device = FaultyDevice(rig.device)
        self.memory: EngineMemory = rig.allocate(BLOCK_COUNT * BLOCK_BYTES)
        self.memory.write(random_bytes(BLOCK_COUNT * BLOCK_BYTES))
        self.region: Region = self.device.open_region(self.memory.handle, SESSION)

    def store(
        self, *, wanted: bool = True, session: int = 1, transfer: int = 1, rank: int = 0
    ) -> Recorder:
        owner = Recorder(wanted=wanted)
        self.submit(owner, Direction.STORE, session, transfer, rank)
        return owner

    def load(self, *, session: int = 1) -> Recorder:
        owner = Recorder()
        self.submit(owner, Direction.LOAD, session, 1, 0)
        return owner

    def submit(
        self, owner: Recorder, direction: Direction, session: int, transfer: int, rank: int
    ) -> None:
        spans = blocks_in_a_row(BLOCK_COUNT, BLOCK_BYTES)
        copy = make_copy(
            owner, direction, spans, [self.region], session=session, transfer=transfer, rank=rank
        )
        self.device.submit(copy)

    def wait_held(self, count: int = 1) -> None:
        wait_for(lambda: len(self.device.held()) == count, f"{count} held copies")

    def stored(self) -> list[bool]:
        """Which blocks have arrived in the pool."""
        size = BLOCK_COUNT * BLOCK_BYTES
        found = self.pool[:size].reshape(BLOCK_COUNT, BLOCK_BYTES)
        wanted = self.memory.read().reshape(BLOCK_COUNT, BLOCK_BYTES)
        return [bool(same) for same in (found == wanted).all(axis=1)]


@pytest.fixture
def world(rig: Rig) -> Iterator[World]:
    world = World(rig)
    yield world
    world.device.close(DEADLINE_S)


def test_a_held_copy_has_started_and_goes_on_when_released(world: World) -> None:
    rule = world.device.add(FaultRule(Hold()))
    owner = world.store(session=7, transfer=8, rank=1)
    owner.wait_start()
    world.wait_held()

    (held,) = world.device.held()
    assert (held.rule, held.copy.session, held.copy.transfer, held.copy.rank) == (rule, 7, 8, 1)
    assert owner.ends == []
    assert world.stored() == [False] * 4
    assert world.device.queue_depth(Direction.STORE) == 1
    (health,) = [each for each in world.device.health() if each.device == world.region.device]
    assert health.queue_depths == {Direction.STORE: 1, Direction.LOAD: 0}

    assert world.device.release(rule) == 1
    end = owner.wait_end()
    assert (end.rank, end.failures, end.copied_bytes) == (1, [], BLOCK_COUNT * BLOCK_BYTES)
    assert world.stored() == [True] * 4
    assert owner.start_count == 1
    assert world.device.held() == ()


def test_held_copies_keep_no_thread_from_others(world: World) -> None:
    world.device.add(FaultRule(Hold(), session=1))
    held = [world.store(session=1) for _ in range(20)]
    world.wait_held(20)

    assert world.store(session=2).wait_end().failures == []
    assert world.load(session=2).wait_end().failures == []
    assert all(owner.ends == [] for owner in held)


def test_a_held_copy_that_is_abandoned_waits_on_and_copies_nothing(world: World) -> None:
    rule = world.device.add(FaultRule(Hold(), count=1))
    owner = world.store()
    world.wait_held()
    owner.abandon()
    other = world.load()
    other.wait_end()
    assert owner.ends == []
    world.memory.write(random_bytes(BLOCK_COUNT * BLOCK_BYTES, seed=1))

    world.device.release(rule)
    assert owner.wait_end().failures == [(block, "abandoned") for block in range(4)]
    assert world.stored() == [False] * 4


def test_a_copy_that_is_not_wanted_is_not_held(world: World) -> None:
    world.device.add(FaultRule(Hold()))
    unwanted = world.store(wanted=False)
    wanted = world.store()
    wanted.wait_start()
    world.wait_held()

    assert world.device.held()[0].copy.owner is not unwanted
    world.device.close(DEADLINE_S)
    assert unwanted.ends == []


def test_a_rule_counts_the_copies_it_meets(world: World) -> None:
    world.device.add(FaultRule(Fail("broken"), count=2))

    assert [bool(world.store().wait_end().failures) for _ in range(4)] == [
        True,
        True,
        False,
        False,
    ]


BROKEN = Fail("broken")


@pytest.mark.parametrize(
    "rule",
    [
        FaultRule(BROKEN, session=2),
        FaultRule(BROKEN, transfer=3),
        FaultRule(BROKEN, rank=4),
        FaultRule(BROKEN, direction=Direction.LOAD),
        FaultRule(BROKEN, session=2, transfer=3, rank=4, direction=Direction.LOAD),
    ],
)
def test_a_rule_meets_what_it_names_and_nothing_else(world: World, rule: FaultRule) -> None:
    world.device.add(rule)
    met, passed = Recorder(), Recorder()
    world.submit(met, Direction.LOAD, session=2, transfer=3, rank=4)
    world.submit(passed, Direction.STORE, session=1, transfer=1, rank=1)

    assert met.wait_end().failed == [0, 1, 2, 3]
    assert passed.wait_end().failures == []


def test_the_first_rule_that_matches_applies(world: World) -> None:
    world.device.add(FaultRule(Fail("first"), rank=0))
    world.device.add(FaultRule(Fail("second")))

    assert world.store(rank=0).wait_end().failures[0] == (0, "first")
    assert world.store(rank=1).wait_end().failures[0] == (0, "second")


def test_blocks_that_fail_are_not_copied_and_the_others_are(world: World) -> None:
    world.device.add(FaultRule(Fail("broken", blocks=(1, 3, 99))))
    end = world.store().wait_end()

    assert end.failures == [(1, "broken"), (3, "broken")]
    assert end.copied_bytes == 2 * BLOCK_BYTES
    assert world.stored() == [True, False, True, False]


def test_a_block_fails_for_one_reason_only(world: World) -> None:
    world.device.add(FaultRule(Fail("broken", blocks=(1,))))
    owner = Recorder()
    owner.abandon()
    world.submit(owner, Direction.STORE, session=1, transfer=1, rank=0)

    reasons = ["abandoned", "broken", "abandoned", "abandoned"]
    assert owner.wait_end().failures == list(enumerate(reasons))


def test_a_delayed_copy_ends_after_its_time(world: World) -> None:
    world.device.add(FaultRule(Delay(0.05)))
    end = world.store().wait_end()

    assert end.failures == []
    assert end.seconds >= 0.05
    assert world.stored() == [True] * 4


def test_a_delayed_copy_can_be_released_early_and_goes_on_once(world: World) -> None:
    rule = world.device.add(FaultRule(Delay(AN_HOUR_S)))
    owner = world.store()
    world.wait_held()

    assert world.device.release(rule) == 1
    assert owner.wait_end().failures == []


def test_a_removed_rule_lets_go_and_meets_no_more(world: World) -> None:
    rule = world.device.add(FaultRule(Hold()))
    owner = world.store()
    world.wait_held()

    assert world.device.remove(rule) == 1
    assert owner.wait_end().failures == []
    assert world.store().wait_end().failures == []


def test_release_leaves_the_rule_and_other_rules_alone(world: World) -> None:
    first = world.device.add(FaultRule(Hold(), rank=0))
    second = world.device.add(FaultRule(Hold(), rank=1))
    owner = world.store(rank=0)
    world.store(rank=1)
    world.wait_held(2)

    assert world.device.release(first) == 1
    owner.wait_end()
    assert [held.rule for held in world.device.held()] == [second]
    world.store(rank=0)
    world.wait_held(2)


def test_a_copy_that_the_device_breaks_down_at_keeps_neither_others_nor_the_end(
    world: World,
) -> None:
    rule = world.device.add(FaultRule(Hold()))
    owners = [world.store(), world.store()]
    world.wait_held(2)

    going_on = patch.object(
        world.inner,
        "submit",
        side_effect=[RuntimeError("a bug"), DEFAULT],
        wraps=world.inner.submit,
    )
    with going_on, pytest.raises(RuntimeError, match="a bug"):
        world.device.release(rule)
    wait_for(lambda: any(owner.ends for owner in owners), "the end of the other copy")
    world.device.close(DEADLINE_S)


def test_a_copy_that_the_device_hangs_at_keeps_nobody_from_closing(world: World) -> None:
    rule = world.device.add(FaultRule(Hold()))
    world.store()
    world.wait_held()
    goes_on = threading.Event()
    hanging = patch.object(world.inner, "submit", side_effect=lambda _: goes_on.wait(DEADLINE_S))
    with hanging as submit, ThreadPoolExecutor(2) as threads:
        threads.submit(world.device.release, rule)
        wait_for(lambda: submit.called, "the copy")
        closing = threads.submit(world.device.close, 0.05)
        closed = wait([closing], DEADLINE_S / 2).done
        goes_on.set()
    assert closed


def test_an_unknown_rule_is_refused(world: World) -> None:
    rule = world.device.add(FaultRule(Hold()))
    world.device.remove(rule)

    for number in (rule, RuleId(99)):
        with pytest.raises(DeviceError, match=f"no fault rule {number}"):
            world.device.release(number)
        with pytest.raises(DeviceError, match=f"no fault rule {number}"):
            world.device.remove(number)


@pytest.mark.parametrize("fault", [Hold(), Delay(AN_HOUR_S)])
def test_what_is_held_at_close_ends_as_failed(world: World, fault: Hold | Delay) -> None:
    world.device.add(FaultRule(fault))
    owner = world.store()
    world.wait_held()
    world.device.close(DEADLINE_S)

    assert owner.wait_end().failures == [(block, "the device was closed") for block in range(4)]
    assert world.device.held() == ()
    after = world.store()
    assert after.wait_end().failed == [0, 1, 2, 3]
    assert np.count_nonzero(world.pool) == 0
