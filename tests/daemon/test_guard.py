"""The lock wakes whom a change concerns, and knows how it was used."""

import threading
import time

import pytest

from core.engines import make_ledger
from kvstow.server.core.errors import BooksError, NoSuchSession
from kvstow.server.core.ledger import Ledger
from kvstow.server.core.types import Hold, SessionId
from support.checking import CheckingGuard
from support.daemons import Rig, running_daemon
from support.engine import Engine, keys
from support.waiting import wait_for


def test_refusals_are_counted_by_reason(rig: Rig) -> None:
    for _ in range(3):
        with pytest.raises(NoSuchSession):
            rig.daemon.acknowledge(SessionId(99), 0)
    assert rig.daemon.status().refusals == {"NO_SUCH_SESSION": 3}


def test_the_use_of_the_lock_is_measured(rig: Rig) -> None:
    before = rig.daemon.status().lock
    rig.daemon.check()
    after = rig.daemon.status().lock
    assert after.count > before.count
    assert after.held_s > before.held_s
    assert 0 < after.longest_s <= after.held_s


def test_a_lease_expires_without_any_traffic(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    engine.store(keys(1, 2), [0, 1])
    engine.lookup(keys(1, 2), hold=Hold.PREFIX)
    (table,) = rig.daemon.snapshot().tables
    assert table.held == 2
    rig.clock.advance(61)
    wait_for(lambda: not rig.daemon.snapshot().leases, "the expiry of the lease")
    (table,) = rig.daemon.snapshot().tables
    assert (table.held, table.evictable) == (0, 2)
    rig.daemon.check()


def test_what_falls_due_wakes_the_timer_by_itself() -> None:
    """Time passes once the stream is lost, however long the engine has taken to come."""
    began = list[float]()
    with running_daemon(
        clock=lambda: time.monotonic() - began[0] if began else 0.0, session_grace_s=0.05
    ) as rig:
        engine = Engine(rig.daemon, rig.place)
        engine.stream.close()
        began.append(time.monotonic())
        wait_for(lambda: engine.session not in sessions(rig), "the end of the session")


def sessions(rig: Rig) -> set[SessionId]:
    return {session.id for session in rig.daemon.snapshot().sessions}


def test_a_thread_that_died_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_daemon(bugs=1) as rig:
        monkeypatch.setattr(threading, "excepthook", rig.daemon.health.report_dead_thread)
        thread = threading.Thread(target=contradict, name="the one")
        thread.start()
        thread.join()
        assert rig.daemon.status().bug_count == 1


def contradict(*arguments: object, **named: object) -> None:
    raise BooksError("one slot too many")


def test_a_call_that_finds_the_books_in_contradiction_is_reported_as_a_bug(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_daemon(bugs=1) as rig:
        engine = Engine(rig.daemon, rig.place)
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "release", contradict)
            with pytest.raises(BooksError):
                rig.daemon.release(engine.session, [])
        assert rig.daemon.status().bug_count == 1
        engine.store(keys(1), [0])


def test_wrong_books_are_found_by_whoever_leaves_the_lock_of_a_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bugs: list[str] = []
    guard = CheckingGuard(
        make_ledger(4),
        wake_readers=lambda _: None,
        wake_timer=lambda: None,
        report_bug=lambda what, _: bugs.append(what),
    )
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "check", contradict)
        with pytest.raises(BooksError), guard:
            pass
        with pytest.raises(BooksError), guard:
            raise NoSuchSession("a refusal", session=1)
    assert len(bugs) == 2
    with guard:  # it was left for others
        pass


def test_books_that_contradict_themselves_are_a_bug_and_the_daemon_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy that ends into wrong books must not take the device's thread with it."""
    with running_daemon(bugs=1, copy_threads=1) as rig:
        engine = Engine(rig.daemon, rig.place)
        let_go = rig.hold(count=1)
        held = engine.begin_store(keys(1), [0])
        rig.wait_held(1)

        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "finish", contradict)
            let_go()
            wait_for(lambda: rig.daemon.status().bug_count, "the report of the bug")
        assert not engine.reports(held.transfer)
        engine.store(keys(2), [1])
