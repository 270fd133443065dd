"""A session that is lost: opened again by itself, and nothing of the old one is trusted."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from client.double import Double
from client.spaces import SHORT_S, identity
from kvstow.client import (
    Callbacks,
    Client,
    GroupMemory,
    Refused,
    Region,
    Segment,
    Session,
    SessionState,
    SharedMemory,
    TransferState,
    Unreachable,
)
from kvstow.client.standing import Standing
from kvstow.server.core import errors
from support.client_engine import PATIENT
from support.waiting import DEADLINE_S, wait_for

KEYS = [b"key1"]
REGIONS = [Region(shared_memory=SharedMemory(path="/dev/shm/none", size_bytes=64))]
GROUPS = [GroupMemory(block_count=1, segments=[Segment(stride_bytes=64)])]
LOST = errors.NoSuchSession("session 1 has ended")


def restart(double: Double, socket: Path) -> Double:
    """Another daemon process on the same socket."""
    double.stop()
    return Double(socket, "second")


@pytest.fixture
def reopened() -> list[str]:
    """Filled by `on_reopen`."""
    return []


def test_after_a_restart_session_and_ranks_are_there_again(
    double: Double, socket: Path, open_session: Callable[..., Session], reopened: list[str]
) -> None:
    session = open_session(callbacks=Callbacks(on_reopen=lambda: reopened.append("reopened")))
    session.attach(0, REGIONS, GROUPS)
    session.lookup("request", KEYS)
    before = session.ticket
    old = session.generation
    successor = restart(double, socket)
    wait_for(lambda: session.counters().reopened == 1, "the session to be open again")
    wait_for(lambda: session.state is SessionState.OPEN, "its stream to stand")
    assert reopened == ["reopened"]
    assert successor.requests["AttachMemory"].regions == REGIONS
    assert session.ticket == ("second", 1) != before
    assert session.lookup("request", KEYS).count == 1
    with pytest.raises(Refused, match="STALE_GENERATION"):
        session.store(KEYS, [0], old)
    successor.stop()


def test_on_reopen_is_called_before_anything_is_asked(
    double: Double, socket: Path, open_session: Callable[..., Session], reopened: list[str]
) -> None:
    sessions: list[Session] = []

    def note() -> None:
        reopened.append(sessions[0].lookup("request", KEYS).missed_because)

    sessions.append(open_session(callbacks=Callbacks(on_reopen=note)))
    successor = restart(double, socket)
    wait_for(lambda: sessions[0].lookup("request", KEYS).count == 1, "a hit")
    assert reopened == ["away"]
    successor.stop()


def test_transfers_of_a_daemon_that_is_gone_are_lost_at_once(
    double: Double, session: Session
) -> None:
    transfer = session.store(KEYS, [0], session.generation)
    double.stop()
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.LOST
    assert session.store(KEYS, [0], session.generation).reason == "away"
    assert session.lookup("request", KEYS).missed_because == "away"


def test_transfers_of_a_lost_session_end_only_when_their_copies_have(
    double: Double, session: Session
) -> None:
    """The daemon goes on copying for a session that has ended."""
    load = session.load(KEYS, [0], session.lookup("request", KEYS))
    assert session.ticket is not None
    double.answers.copying = [session.ticket.session_id]
    double.stage.end_stream(LOST)
    wait_for(lambda: double.calls["ListTransfers"] >= 2, "the copies to be asked for")
    assert not load.done()
    assert session.counters().reopened == 0
    double.answers.copying = []
    assert load.wait(DEADLINE_S)
    assert load.state is TransferState.LOST
    wait_for(lambda: session.counters().reopened == 1, "the session to be open again")


@pytest.mark.parametrize("method", ["Store", "Load"])
def test_a_transfer_whose_call_broke_off_costs_the_session(
    double: Double, session: Session, method: str
) -> None:
    """Nobody knows whether the daemon took it; a session that has ended takes nothing."""
    hits = session.lookup("request", KEYS)
    double.stage.break_off(method)
    if method == "Store":
        transfer = session.store(KEYS, [0], session.generation)
    else:
        transfer = session.load(KEYS, [0], hits)
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.LOST
    assert double.calls["CloseSession"] == 1
    wait_for(lambda: session.counters().reopened == 1, "the session to be open again")


def test_a_lookup_that_says_there_is_no_such_session_is_a_miss(
    double: Double, session: Session
) -> None:
    double.refusals["Lookup"] = LOST
    assert session.lookup("request", KEYS).missed_because == "NO_SUCH_SESSION"
    del double.refusals["Lookup"]
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert session.counters().reopened == 1


def test_an_answer_of_another_daemon_process_is_not_believed(
    double: Double, session: Session
) -> None:
    double.boot_id = "second"
    assert session.lookup("request", KEYS).missed_because == "restarted"
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert session.ticket is not None
    assert session.ticket.boot_id == "second"


def test_a_session_can_be_opened_before_the_daemon_is_there(
    socket: Path, reopened: list[str]
) -> None:
    with Client(f"unix:{socket}", PATIENT) as client:
        with pytest.raises(Unreachable):
            client.open(identity(), "engine")
        callbacks = Callbacks(on_reopen=lambda: reopened.append("opened"))
        with client.open(identity(), "engine", callbacks=callbacks, must_connect=False) as session:
            session.attach(0, REGIONS, GROUPS)
            assert session.lookup("request", KEYS).missed_because == "away"
            assert session.ticket is None
            double = Double(socket)
            wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
            assert reopened == ["opened"]
            assert double.calls["AttachMemory"] == 1
        double.stop()


def test_a_session_that_the_daemon_does_not_take_is_an_error(
    double: Double, open_session: Callable[..., Session]
) -> None:
    double.refusals["OpenSession"] = errors.BlockTooLarge("64 MiB", slot_bytes=1)
    with pytest.raises(Refused, match="BLOCK_TOO_LARGE"):
        open_session(must_connect=False)


def test_a_stream_has_the_budget_s_time_to_stand(
    double: Double, open_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def note(standing: Standing, condition: Callable[[], bool], timeout_s: float) -> bool:
        waits.append(timeout_s)
        return condition()

    monkeypatch.setattr(Standing, "wait_until", note)
    with (
        double.stage.held("Watch"),
        pytest.raises(Unreachable, match="the stream did not stand within"),
    ):
        open_session()
    assert waits == [PATIENT.control_s]


def test_a_rank_that_is_refused_is_not_attached_again(double: Double, session: Session) -> None:
    double.refusals["AttachMemory"] = errors.RegionInvalid("too small")
    with pytest.raises(Refused, match="REGION_INVALID"):
        session.attach(0, REGIONS, GROUPS)
    double.stage.end_stream(LOST)
    wait_for(lambda: session.counters().reopened == 1, "the session to be open again")
    assert double.calls["AttachMemory"] == 1


def test_a_rank_attached_to_a_session_that_has_just_ended_is_attached_to_the_next(
    double: Double, session: Session
) -> None:
    double.refusals["AttachMemory"] = LOST
    session.attach(0, REGIONS, GROUPS)
    assert session.lookup("request", KEYS).count == 0
    del double.refusals["AttachMemory"]
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert double.requests["AttachMemory"].session_id == double.session_id > 1


def test_why_a_session_cannot_be_opened_is_said_once(
    double: Double, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    double.refusals["OpenSession"] = errors.TooManySessions("64 sessions, the limit")
    double.stage.end_stream(LOST)
    wait_for(lambda: double.calls["OpenSession"] >= 4, "several attempts")
    del double.refusals["OpenSession"]
    wait_for(lambda: session.counters().reopened == 1, "the session to be open again")
    said = [record for record in caplog.records if "cannot be opened" in record.message]
    assert [record.levelname for record in said] == ["WARNING"]
    assert "TOO_MANY_SESSIONS: 64 sessions, the limit" in said[0].message


def test_a_reset_that_breaks_off_is_owed_and_made_before_anything_is_asked(
    double: Double, session: Session
) -> None:
    old = session.generation
    double.stage.break_off("Reset")
    with double.stage.held("OpenSession"):
        with pytest.raises(Unreachable, match="owed"):
            session.reset()
        assert session.lookup("request", KEYS).count == 0
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert double.calls["Reset"] == 2
    assert session.generation.number == double.generation
    with pytest.raises(Refused, match="STALE_GENERATION"):
        session.store(KEYS, [0], old)


def test_a_reset_without_a_daemon_is_owed_to_the_next_one(
    double: Double, socket: Path, session: Session
) -> None:
    double.stop()
    wait_for(lambda: session.ticket is None, "the loss of the session")
    with pytest.raises(Unreachable, match="owed"):
        session.reset()
    successor = Double(socket, "second")
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert successor.calls["Reset"] == 1
    successor.stop()


def test_while_a_reset_runs_nothing_is_found_and_its_late_answer_counts(
    double: Double, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session._resets, "_limit_s", SHORT_S)
    with double.stage.held("Reset"):
        with pytest.raises(Unreachable):
            session.reset()
        assert session.lookup("request", KEYS).missed_because == "reset owed"
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert (double.calls["Reset"], session.counters().reopened) == (1, 0)


def test_a_stream_that_broke_is_no_loss_of_the_session(double: Double, session: Session) -> None:
    before = session.ticket
    double.stage.end_stream(grpc.StatusCode.UNAVAILABLE)
    wait_for(lambda: double.calls["Watch"] == 2, "another stream")
    wait_for(lambda: session.state is SessionState.OPEN, "its stream to stand")
    assert session.ticket == before


def test_closing_ends_the_session_and_what_is_left_of_it(double: Double, session: Session) -> None:
    transfer = session.store(KEYS, [0], session.generation)
    session.attach(0, REGIONS, GROUPS)
    assert not session.close(-1)
    assert double.calls["DetachMemory"] == double.calls["CloseSession"] == 1
    assert transfer.state is TransferState.LOST
    assert session.state is SessionState.CLOSED
    assert session.lookup("request", KEYS).missed_because == "closed"
    assert not session.close(0)
