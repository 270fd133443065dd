"""One slot for all ranks: they succeed and fail together, and none moves before all are attached."""

from collections.abc import Iterator

import pytest

from kvstow.server.core.errors import (
    NotAttached,
    RankAttached,
    RankMismatch,
    RegionInvalid,
)
from kvstow.server.core.requests import GroupMemory, RankMemory
from kvstow.server.core.spans import Segment
from kvstow.server.core.types import BlockFailure, Group, Layout, TransferState
from kvstow.server.device.faults import Fail, FaultRule
from kvstow.server.device.handles import SharedMemoryHandle
from support.daemons import Rig, running_daemon
from support.engine import BLOCK_COUNT, Engine, identity, keys
from support.machines import Machine
from support.memory import RankFile
from support.waiting import wait_for

FOUR_RANKS = Layout("float32", 16, 4, "", (Group((512,)),))


@pytest.fixture
def rig(machine: Machine) -> Iterator[Rig]:
    with running_daemon(layout=FOUR_RANKS, machine=machine) as running:
        yield running


@pytest.fixture
def file_rig() -> Iterator[Rig]:
    with running_daemon(layout=FOUR_RANKS) as running:
        yield running


@pytest.fixture
def engine(rig: Rig) -> Engine:
    return Engine(rig.daemon, rig.place, identity(FOUR_RANKS))


def test_three_ranks_done_and_one_held_are_pending(rig: Rig, engine: Engine) -> None:
    let_go = rig.hold(rank=2, count=1)
    held = engine.begin_store(keys(1, 2), [0, 1])
    wait_for(
        lambda: rig.daemon.unfinished_ranks([(engine.session, held.transfer)]) == [[2]],
        "the copies of three ranks",
    )
    rig.wait_held(1)
    rig.daemon.check()
    assert not engine.reports(held.transfer)
    hits = engine.hits(keys(1, 2))
    assert (hits.hit_count, hits.pending_count) == (0, 2)
    let_go()
    assert engine.ended(held.transfer).state is TransferState.DONE
    engine.load(keys(1, 2), [2, 3])


def test_one_rank_that_fails_fails_the_block_and_is_named(rig: Rig, engine: Engine) -> None:
    rig.faults.add(FaultRule(Fail("worn out", (1,)), rank=3, count=1))
    plan = engine.begin_store(keys(1, 2, 3), [0, 1, 2])
    report = engine.ended(plan.transfer)
    assert report.state is TransferState.FAILED
    assert report.failures == (BlockFailure(1, 3, "worn out"),)
    assert engine.hits(keys(1, 2, 3)).hit_count == 1
    assert engine.hits(keys(3)).hit_count == 1


def test_a_load_that_fails_on_one_rank_names_it(rig: Rig, engine: Engine) -> None:
    engine.store(keys(1, 2, 3), [0, 1, 2])
    rig.faults.add(FaultRule(Fail("worn out", (2,)), rank=1, count=1))
    plan = engine.begin_load(keys(1, 2, 3), [3, 4, 5])
    report = engine.ended(plan.transfer)
    assert report.state is TransferState.FAILED
    assert report.failures == (BlockFailure(2, 1, "worn out"),)
    assert engine.hits(keys(1, 2, 3)).hit_count == 2


def test_nothing_moves_before_all_ranks_are_attached(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place, identity(FOUR_RANKS), attach=False)
    for rank in (0, 1, 3):
        engine.attach(rank)
    with pytest.raises(NotAttached) as refused:
        engine.begin_store(keys(1), [0])
    rig.daemon.check()
    assert refused.value.facts["ranks"] == "[2]"
    engine.attach(2)
    engine.store(keys(1), [0])


def test_a_rank_attaches_once(rig: Rig, engine: Engine) -> None:
    with pytest.raises(RankAttached):
        engine.attach(1)
    rig.daemon.check()
    engine.store(keys(1), [0])


def test_ranks_with_different_block_counts_are_refused(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place, identity(FOUR_RANKS), attach=False)
    engine.attach(0)
    engine.ranks[1] = rig.place.rank(FOUR_RANKS, block_count=7)
    with pytest.raises(RankMismatch, match=r"rank 1 .*7.* rank 0 .*16"):
        engine.attach(1)
    rig.daemon.check()


@pytest.mark.parametrize("renamed", [False, True])
def test_two_ranks_with_one_file_are_refused(file_rig: Rig, renamed: bool) -> None:
    rig = file_rig
    engine = Engine(rig.daemon, rig.place, identity(FOUR_RANKS), attach=False)
    file = engine.ranks[0] = RankFile(rig.directory, FOUR_RANKS, BLOCK_COUNT)
    engine.attach(0)
    if renamed:
        link = file.path.with_name("another-name")
        link.hardlink_to(file.path)
        file.path = link
    engine.ranks[1] = file
    with pytest.raises(RegionInvalid, match=r"rank 1 .* rank 0") as refused:
        engine.attach(1)
    rig.daemon.check()
    assert refused.value.facts["other_rank"] == "0"


def test_two_ranks_may_share_a_file_in_different_places(file_rig: Rig) -> None:
    rig = file_rig
    half = 16 * 512
    path = rig.directory / "both"
    path.write_bytes(bytes(2 * half))
    engine = Engine(rig.daemon, rig.place, identity(FOUR_RANKS), attach=False)
    groups = (GroupMemory(16, (Segment(0, 0, 512, 512),)),)
    for rank in (0, 1):
        handle = SharedMemoryHandle(str(path), rank * half, half)
        rig.daemon.attach(engine.session, rank, RankMemory((handle,), groups), None)
    rig.daemon.check()


def test_memory_that_is_too_small_or_missing_is_refused(file_rig: Rig) -> None:
    rig = file_rig
    engine = Engine(rig.daemon, rig.place, identity(FOUR_RANKS), attach=False)
    file = engine.ranks[0] = RankFile(rig.directory, FOUR_RANKS, BLOCK_COUNT)
    groups = tuple(file.groups)
    for handle, complaint in (
        (SharedMemoryHandle(str(file.path), 0, file.size_bytes - 1), "block 15 ends"),
        (SharedMemoryHandle(str(file.path), 1, file.size_bytes), "has 8192 bytes"),
        (SharedMemoryHandle(str(rig.directory / "nothing"), 0, file.size_bytes), "No such file"),
    ):
        with pytest.raises(RegionInvalid, match=complaint):
            rig.daemon.attach(engine.session, 0, RankMemory((handle,), groups), None)
        rig.daemon.check()
    engine.attach(0)
