"""The stream: each report exactly once and in order, whatever happens to the connection."""

import logging
import threading
from collections.abc import Callable

import grpc
import pytest

from client.double import Double
from kvstow.client import (
    Callbacks,
    Draining,
    LeaseExpired,
    ResetDrained,
    Resync,
    Session,
    SessionEvent,
    SessionState,
    SpaceReset,
    Transfer,
    TransferOverdue,
    TransferState,
    stream,
)
from kvstow.client.stream import Cursor
from kvstow.server.core import events
from kvstow.server.core.types import LeaseId, TransferId, TransferKind
from kvstow.server.rpc.status import StreamReplaced
from support.waiting import DEADLINE_S, wait_for

KEYS = [b"key1"]
BROKEN = grpc.StatusCode.UNAVAILABLE


def store(session: Session) -> Transfer:
    return session.store(KEYS, [0], session.generation)


def test_a_stream_that_breaks_resumes_and_brings_each_report_once_and_in_order(
    double: Double, session: Session
) -> None:
    transfers = [store(session) for _ in range(100)]
    ended: list[int] = []
    for transfer in transfers:
        transfer.add_done_callback(lambda transfer: ended.append(transfer.id))
    for at, transfer in enumerate(transfers):
        double.end(transfer.id)
        if at % 7 == 0:
            double.stage.end_stream(BROKEN)
    assert transfers[-1].wait(DEADLINE_S)
    assert ended == [transfer.id for transfer in transfers]
    assert session.counters().ignored_reports == 0
    assert session.counters().reopened == 0
    assert double.calls["Watch"] > 1


def test_a_report_that_comes_while_no_stream_is_open_is_heard_later(
    double: Double, session: Session
) -> None:
    transfer = store(session)
    with double.stage.held("Watch"):
        double.stage.end_stream(BROKEN)
        wait_for(lambda: session.state is SessionState.AWAY, "the broken stream")
        assert session.lookup("request", KEYS).missed_because == "away"
        double.end(transfer.id)
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.DONE
    wait_for(lambda: session.state is SessionState.OPEN, "the session to be open again")


def test_events_are_acknowledged_every_few_hundred_and_when_nothing_comes(
    double: Double, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patient:
        patient.setattr(stream, "IDLE_S", 3600.0)
        for number in range(1000):
            double.end(number)
        wait_for(lambda: session.counters().ignored_reports == 1000, "the reports")
        # A message brings up to 64, so each of three steps is between 256 and 319.
        wait_for(lambda: double.stage.acknowledged >= 3 * 256, "the third acknowledgement")
        assert double.calls["Acknowledge"] == 3
        assert double.stage.acknowledged < 1000
    double.end(1000)
    wait_for(lambda: double.stage.acknowledged == 1001, "the last acknowledgement")
    assert double.calls["Acknowledge"] in (4, 5)  # the pause may have begun before the last one


def test_a_daemon_that_keeps_few_reports_hears_of_each_soon(
    double: Double, open_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "IDLE_S", 3600.0)
    double.stage.max_transfers = 4
    session = open_session()
    for number in range(200):
        double.end(number)
    wait_for(lambda: session.counters().ignored_reports == 200, "the reports")
    assert double.stage.most_waiting <= 4


def test_a_hundred_thousand_reports_to_a_slow_reader(
    double: Double, open_session: Callable[..., Session]
) -> None:
    """The reader stops at every ten-thousandth until the daemon keeps as many as it may."""
    heard: list[int] = []
    finished = threading.Event()

    def listen(event: SessionEvent) -> None:
        assert isinstance(event, TransferOverdue)
        heard.append(event.transfer_id)
        wait_for(lambda: double.stage.full or finished.is_set(), "a daemon that is full")

    session = open_session(callbacks=Callbacks(on_event=listen))
    known = [store(session) for _ in range(100)]
    ended: list[int] = []
    for transfer in known:
        transfer.add_done_callback(lambda transfer: ended.append(transfer.id))
    for number in range(1, 100_001):
        if number % 10_000 == 0:
            double.stage.tell(overdue(number))
        double.end(number)
    finished.set()
    wait_for(lambda: double.stage.acknowledged == 100_010, "all events to be acknowledged")
    assert session.counters().ignored_reports + len(ended) == 100_000
    assert ended == [transfer.id for transfer in known]
    assert heard == list(range(10_000, 100_001, 10_000))
    assert double.stage.most_waiting <= double.stage.max_transfers + len(heard)


def overdue(number: int) -> events.TransferOverdue:
    return events.TransferOverdue(TransferId(number), TransferKind.STORE, 1.0)


def test_what_is_no_report_is_told_to_the_engine_in_order(
    double: Double, open_session: Callable[..., Session]
) -> None:
    heard: list[object] = []
    session = open_session(callbacks=Callbacks(on_event=heard.append))
    for event in (
        events.TransferOverdue(TransferId(1), TransferKind.STORE, 1.5),
        events.SpaceReset(9),
        events.ResetDrained(9),
        events.LeaseExpired(LeaseId(3), "request"),
        events.Resync(4),
        events.Draining(),
    ):
        double.stage.tell(event)
    wait_for(lambda: len(heard) == 6, "six events")
    kinds = (TransferOverdue, SpaceReset, ResetDrained, LeaseExpired, Resync, Draining)
    assert [type(event) for event in heard] == list(kinds)
    assert session.generation.number == 9
    assert session.state is SessionState.DRAINING
    assert session.lookup("request", KEYS).missed_because == "draining"


def test_an_older_reset_does_not_lower_the_generation(double: Double, session: Session) -> None:
    for number in (9, 8):
        double.stage.tell(events.SpaceReset(number))
    double.end(0)
    wait_for(lambda: session.counters().ignored_reports == 1, "the events to be heard")
    assert session.generation.number == 9


def test_a_callback_that_raises_is_logged_and_stops_nothing(
    double: Double, open_session: Callable[..., Session], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the engine's mistake")

    session = open_session(callbacks=Callbacks(on_event=fail))
    with caplog.at_level(logging.ERROR):
        first, second = store(session), store(session)
        first.add_done_callback(fail)
        double.stage.tell(events.SpaceReset(2))
        double.end(first.id)
        double.end(second.id)
        assert second.wait(DEADLINE_S)
    assert first.state is second.state is TransferState.DONE
    assert len([record for record in caplog.records if record.exc_info]) == 2


def test_a_callback_cannot_close_its_session(
    double: Double, open_session: Callable[..., Session]
) -> None:
    session = open_session(callbacks=Callbacks(on_event=lambda event: close()))
    refused: list[str] = []

    def close() -> None:
        with pytest.raises(RuntimeError) as error:
            session.close()
        refused.append(str(error.value))

    double.stage.tell(events.SpaceReset(2))
    wait_for(lambda: refused, "the refusal")
    assert refused == ["a callback must not close the session that called it"]
    assert session.state is SessionState.OPEN


def test_callbacks_run_on_the_session_s_thread_or_at_once(
    double: Double, session: Session
) -> None:
    names: list[str] = []

    def note(transfer: Transfer) -> None:
        names.append(threading.current_thread().name)

    transfer = store(session)
    transfer.add_done_callback(note)
    double.end(transfer.id)
    assert transfer.wait(DEADLINE_S)
    transfer.add_done_callback(note)
    wait_for(lambda: len(names) == 2, "both callbacks")
    assert set(names) == {"kvstow-session", threading.current_thread().name}


def test_a_stream_that_was_taken_over_makes_the_session_open_another(
    double: Double, session: Session
) -> None:
    before = session.ticket
    double.stage.end_stream(StreamReplaced("session 1 has a newer stream"))
    wait_for(lambda: session.counters().reopened == 1, "another session")
    assert session.ticket != before


def test_an_event_that_comes_twice_is_heard_once_and_a_gap_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursor = Cursor()
    assert [cursor.advance(number) for number in (1, 2, 2, 1, 3)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert not caplog.records
    assert cursor.advance(6)
    assert "events 4 to 5 never came" in caplog.text
