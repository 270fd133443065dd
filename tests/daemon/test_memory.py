"""When engine memory is unmapped: after its last copy, and only then."""

import threading
from pathlib import Path

import pytest

from kvstow.server.core.errors import NoSuchSession, NotAttached
from kvstow.server.core.types import TransferState
from support.daemons import Rig
from support.engine import Engine, keys
from support.memory import RankFile, RankGpu
from support.waiting import wait_for


def mapped_count(engine: Engine) -> int:
    """How often the daemon maps the engine's memory."""
    match engine.ranks[0]:
        case RankFile(path=path):
            maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
            return sum(line.endswith(str(path)) for line in maps) - 1  # the engine's own
        case RankGpu(allocation=allocation):
            return allocation.mapped_count
    raise AssertionError("memory of an unknown kind")


def test_memory_is_mapped_while_it_is_attached(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place, attach=False)
    assert mapped_count(engine) == 0
    engine.attach(0)
    assert mapped_count(engine) == 1
    assert rig.daemon.detach(engine.session, 0, 3600)
    assert mapped_count(engine) == 0


def test_a_refused_attachment_leaves_nothing_mapped(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    with pytest.raises(Exception, match="attached already"):
        engine.attach(0)
    assert mapped_count(engine) == 1


def test_detaching_abandons_transfers_and_waits_for_their_copies(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(9), [9])
    let_go = rig.hold(count=1)
    held = engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    assert not rig.daemon.detach(engine.session, 0, 0.05)
    rig.daemon.check()
    assert mapped_count(engine) == 1
    assert not engine.reports(held.transfer)
    with pytest.raises(NotAttached):
        engine.begin_store(keys(3), [2])

    let_go()
    assert rig.daemon.detach(engine.session, 0, 3600)
    assert mapped_count(engine) == 0
    assert engine.ended(held.transfer).state is TransferState.ABANDONED
    engine.attach(0)
    engine.load(keys(9), [10])


def test_a_call_that_waits_for_a_detachment_returns_with_the_end_of_the_copy(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    engine.begin_store(keys(1), [0])
    rig.wait_held(1)
    answers: list[bool] = []
    waiting = threading.Thread(
        target=lambda: answers.append(rig.daemon.detach(engine.session, 0, 3600))
    )
    waiting.start()
    wait_for(lambda: not rig.daemon.snapshot().sessions[0].ranks, "the detachment")
    assert not answers
    let_go()
    waiting.join(60)
    assert answers == [True]


def test_detaching_a_rank_that_is_not_attached_is_no_error(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place, attach=False)
    assert rig.daemon.detach(engine.session, 0, 0)
    engine.close()
    with pytest.raises(NoSuchSession):
        rig.daemon.detach(engine.session, 0, 0)


def test_the_memory_of_a_session_that_is_long_gone_stays_mapped_under_its_copy(rig: Rig) -> None:
    engine, other = Engine(rig.daemon, rig.place), Engine(rig.daemon, rig.place)
    let_go = rig.hold(session=engine.session, count=1)
    held = engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    engine.close()
    other.store(keys(3), [0])  # others go on meanwhile
    rig.daemon.check()
    assert mapped_count(engine) == 1

    let_go()
    rig.landed(held.transfer)
    wait_for(lambda: mapped_count(engine) == 0, "the end of the mapping")
    rig.daemon.check()
    other.load(keys(3), [1])
