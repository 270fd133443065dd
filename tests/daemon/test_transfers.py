"""How transfers fail, are cancelled, outlive their deadline and their engine."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from kvstow.server.core.errors import KeyNotReady
from kvstow.server.core.events import TransferOverdue
from kvstow.server.core.types import BlockFailure, Group, Layout, TransferState
from kvstow.server.device.base import Copy
from kvstow.server.device.faults import Fail, FaultRule
from support.daemons import Rig, running_daemon
from support.engine import ONE_RANK, Engine, identity, keys
from support.machines import Machine
from support.waiting import wait_for

EIGHT = list(range(8))
TWO_GROUPS = Layout("float32", 16, 2, "", (Group((256,), replicated=True), Group((128,))))


def fail(rig: Rig, *blocks: int, rank: int | None = None) -> None:
    rig.faults.add(FaultRule(Fail("a cable is loose", blocks), rank=rank, count=1))


def test_a_store_publishes_nothing_of_a_block_that_failed(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    fail(rig, 3)
    plan = engine.begin_store(keys(*EIGHT), EIGHT)
    report = engine.ended(plan.transfer)
    assert report.state is TransferState.FAILED
    assert report.failures == (BlockFailure(3, 0, "a cable is loose"),)
    assert engine.hits(keys(*EIGHT)).hit_count == 3
    assert engine.hits(keys(4, 5, 6, 7)).hit_count == 4
    assert engine.begin_store(keys(3), [3]).statuses == "A"  # its slot came back


def test_a_failed_load_names_block_and_rank_and_its_key_is_not_offered_again(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(*EIGHT), EIGHT)
    fail(rig, 3)
    plan = engine.begin_load(keys(*EIGHT), [8, 9, 10, 11, 12, 13, 14, 15])
    report = engine.ended(plan.transfer)
    assert report.state is TransferState.FAILED
    assert report.failures == (BlockFailure(3, 0, "a cable is loose"),)
    assert engine.hits(keys(*EIGHT)).hit_count == 3
    with pytest.raises(KeyNotReady):
        engine.begin_load(keys(3), [0])
    engine.store(keys(3), [3])
    engine.load(keys(*EIGHT), [8, 9, 10, 11, 12, 13, 14, 15])


def test_failures_are_named_by_their_place_in_the_request(machine: Machine) -> None:
    """Rank 1 copies the second group alone, and of it only what is new."""
    with running_daemon(
        machine=machine, layout=TWO_GROUPS, extent_size=4096, pool_size=32768
    ) as rig:
        engine = Engine(rig.daemon, rig.place, identity(TWO_GROUPS))
        engine.fill(keys(1, 2), [0, 1], group=1)
        plan = engine.begin_store_groups({1: (keys(1), [0])})
        engine.ended(plan.transfer)
        fail(rig, 0, rank=1)
        plan = engine.begin_store_groups({0: (keys(1, 2), [0, 1]), 1: (keys(1, 2), [0, 1])})
        assert plan.statuses == "AASA"
        report = engine.ended(plan.transfer)
        assert report.failures == (BlockFailure(3, 1, "a cable is loose"),)
        assert engine.hits(keys(1, 2), group=0).hit_count == 2
        assert engine.hits(keys(1, 2), group=1).hit_count == 1


def test_a_copy_that_cannot_be_submitted_settles_its_transfer_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(copy: Copy) -> None:
        raise MemoryError(f"no memory for {copy.session}")

    with running_daemon(bugs=1) as rig:
        engine = Engine(rig.daemon, rig.place)
        with monkeypatch.context() as patch:
            patch.setattr(rig.faults, "submit", refuse)
            plan = engine.begin_store(keys(1, 2), [0, 1])
        report = engine.ended(plan.transfer)
        assert report.state is TransferState.FAILED
        assert [(f.position, f.rank) for f in report.failures] == [(0, 0), (1, 0)]
        assert "MemoryError" in report.failures[0].reason
        assert rig.daemon.status().bug_count == 1
        engine.store(keys(1, 2), [0, 1])


def test_a_cancelled_store_publishes_nothing_and_ends_when_its_copy_has(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    held = engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    assert rig.daemon.cancel(engine.session, [held.transfer]) == (0, 1)
    rig.daemon.check()
    assert engine.hits(keys(1, 2)).pending_count == 0
    assert not engine.reports(held.transfer)
    let_go()
    assert engine.ended(held.transfer).state is TransferState.ABANDONED
    assert rig.daemon.cancel(engine.session, [held.transfer]) == (0, 0)


def past_deadline(lines: Sequence[EventDict]) -> list[tuple[int, int]]:
    """Session and transfer of each line of the log about a transfer past its deadline."""
    said = [line for line in lines if line["event"].startswith("transfer is past its deadline")]
    return [(line["session"], line["transfer"]) for line in said]


def test_a_transfer_past_its_deadline_is_reported_once_and_keeps_its_slots(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(1, 2), [0, 1])
    let_go = rig.hold(count=1)
    engine.fill(keys(3, 4), [2, 3])
    held = engine.begin_store_groups({0: (keys(3, 4), [2, 3])}, deadline_s=5)
    rig.wait_held(1)
    overdue = TransferOverdue(held.transfer, held.kind, 6.0)
    with capture_logs() as lines:
        rig.clock.advance(6)
        wait_for(lambda: overdue in engine.events(), "the report of the deadline")
        wait_for(lambda: past_deadline(lines), "the line of the log")
        rig.clock.advance(60)
        rig.daemon.check()

    (transfer,) = rig.daemon.snapshot().transfers
    assert transfer.overdue
    assert transfer.age_s == 66.0
    assert rig.daemon.status().stuck_count == 1
    assert engine.hits(keys(1, 2)).hit_count == 0  # what is found could not be loaded
    (table,) = rig.daemon.snapshot().tables
    assert (table.writing, table.free) == (2, 0)

    let_go()
    assert engine.ended(held.transfer).state is TransferState.DONE
    assert engine.events().count(overdue) == 1
    assert past_deadline(lines) == [(engine.session, held.transfer)]
    assert rig.daemon.snapshot().counters.overdue == 1
    assert rig.daemon.status().stuck_count == 0
    assert engine.hits(keys(1, 2)).hit_count == 2
    engine.load(keys(3, 4), [4, 5])


def test_a_key_being_stored_is_pending_until_its_writer_dies(rig: Rig) -> None:
    writer, other = Engine(rig.daemon, rig.place), Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    held = writer.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    assert other.hits(keys(1, 2)).pending_count == 2
    assert other.begin_store(keys(1, 2), [0, 1]).statuses == "WW"

    writer.close()
    rig.daemon.check()
    assert other.hits(keys(1, 2)).pending_count == 0
    again = other.begin_store(keys(1, 2), [0, 1])
    assert again.statuses == "AA"
    assert not set(again.copies[0].slots) & set(held.copies[0].slots)
    (table,) = rig.daemon.snapshot().tables
    assert table.quarantined == 2
    other.ended(again.transfer)

    let_go()
    rig.landed(held.transfer)
    rig.daemon.check()
    (table,) = rig.daemon.snapshot().tables
    assert table.quarantined == 0
    other.load(keys(1, 2), [4, 5])


def test_a_new_engine_of_the_same_name_gets_none_of_the_old_ones_reports(rig: Rig) -> None:
    old = Engine(rig.daemon, rig.place, name="worker-0")
    let_go = rig.hold(count=1)
    held = old.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    old.close()

    new = Engine(rig.daemon, rig.place, name="worker-0")
    own = new.begin_store(keys(3), [0])
    assert own.transfer == held.transfer  # ids are the session's own
    assert new.ended(own.transfer).state is TransferState.DONE
    let_go()
    wait_for(lambda: not rig.daemon.snapshot().transfers, "the end of the old transfer")
    assert [report.transfer for report in new.reports(own.transfer)] == [own.transfer]
    assert len(new.events()) == 1
    assert old.stream.next(0) is None


def test_transfers_of_an_engine_that_left_are_not_copied_if_they_were_queued() -> None:
    with running_daemon(copy_threads=1) as rig:
        engine = Engine(rig.daemon, rig.place)
        blocker = rig.hold(count=1)
        engine.begin_store(keys(1), [0])
        rig.wait_held(1)
        engine.close()
        rig.daemon.check()
        blocker()
        wait_for(lambda: not rig.daemon.snapshot().transfers, "the end of all transfers")
        ended = rig.daemon.snapshot().counters.transfers
        assert {state for _, state in ended} == {TransferState.ABANDONED}


def test_the_pool_is_shared_by_all_block_sizes_that_fit(machine: Machine) -> None:
    large = Layout("float32", 16, 1, "", (Group((2048,)),))
    with running_daemon(machine=machine, pool_size=8192, extent_size=2048) as rig:
        small_engine = Engine(rig.daemon, rig.place, identity(ONE_RANK, "small"))
        small_engine.store(keys(*EIGHT), EIGHT)
        large_engine = Engine(rig.daemon, rig.place, identity(large, "large"))
        large_engine.store(keys(1, 2), [0, 1])
        large_engine.load(keys(1, 2), [2, 3])
        assert small_engine.hits(keys(*EIGHT)).hit_count < 8
