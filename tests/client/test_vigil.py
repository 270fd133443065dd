"""Whether resets of a daemon process that is gone may have been missed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.double import Double
from client.faults import stopped
from kvstow.client import Callbacks, Session, SessionState, Ticket
from kvstow.client import vigil as vigil_module
from kvstow.client.stream import BEAT_S
from kvstow.client.vigil import FIRST_GENERATION, WAKE_S, WITNESS_S, Opening, Vigil
from kvstow.server.core import errors
from kvstow.v1 import cache_pb2
from support.clock import ManualClock
from support.waiting import wait_for

SPACE, GENERATION = 7, 3
FIRST = Opening(Ticket("first", 1), SPACE, GENERATION)
SAME = Opening(Ticket("first", 2), SPACE, GENERATION)
OTHER = Opening(Ticket("second", 1), 1, FIRST_GENERATION)


@pytest.fixture
def clock() -> ManualClock:
    """Stands still."""
    return ManualClock()


@pytest.fixture
def vigil(clock: ManualClock) -> Vigil:
    """Over a session that was open, and whose stream stood until now."""
    vigil = Vigil(clock)
    assert not vigil.open(FIRST, clock(), 0), "there was nothing before"
    listen(clock, vigil, 100)
    return vigil


def listen(clock: ManualClock, vigil: Vigil, for_s: float) -> None:
    """The stream stands."""
    for _ in range(int(for_s / BEAT_S)):
        clock.advance(BEAT_S)
        vigil.listen()


def test_a_process_that_died_when_the_stream_ended(clock: ManualClock, vigil: Vigil) -> None:
    clock.advance(WITNESS_S)
    assert vigil.look(lambda ticket: False) is False
    clock.advance(100)
    assert vigil.look(lambda ticket: False) is False
    assert not vigil.open(OTHER, clock(), GENERATION)


def test_a_process_that_died_while_this_one_stood_still(clock: ManualClock, vigil: Vigil) -> None:
    """The end of the stream is not seen at once."""
    clock.advance(WITNESS_S + 1)
    vigil.listen()
    listen(clock, vigil, WAKE_S - 1)
    assert vigil.look(lambda ticket: False) is False
    assert vigil.open(OTHER, clock(), GENERATION)


def test_a_process_that_died_long_after_this_one_stood_still(
    clock: ManualClock, vigil: Vigil
) -> None:
    clock.advance(WITNESS_S + 1)
    vigil.listen()
    listen(clock, vigil, WAKE_S)
    assert vigil.look(lambda ticket: False) is False
    assert not vigil.open(OTHER, clock(), GENERATION)


def test_a_stream_that_stood_only_after_this_process_stood_still(clock: ManualClock) -> None:
    vigil = Vigil(clock)
    vigil.open(FIRST, clock(), 0)
    clock.advance(WITNESS_S + 1)
    vigil.listen()
    assert vigil.look(lambda ticket: False) is False
    assert vigil.open(OTHER, clock(), GENERATION)


def test_a_process_that_lived_on(clock: ManualClock, vigil: Vigil) -> None:
    assert vigil.look(lambda ticket: True) is True
    clock.advance(WITNESS_S + 1)
    assert vigil.look(lambda ticket: False) is False
    assert vigil.open(OTHER, clock(), GENERATION)


def test_a_process_whose_death_nobody_saw(clock: ManualClock, vigil: Vigil) -> None:
    assert vigil.look(lambda ticket: None) is None
    assert vigil.open(OTHER, clock(), GENERATION)


def test_the_same_process(clock: ManualClock, vigil: Vigil) -> None:
    clock.advance(100)
    assert not vigil.open(SAME, clock(), GENERATION)


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param(SAME._replace(generation=GENERATION + 1), id="a later generation"),
        pytest.param(SAME._replace(space_id=SPACE + 1), id="another space"),
        pytest.param(OTHER._replace(generation=2), id="another process, reset already"),
    ],
)
def test_a_space_that_was_reset_while_the_session_was_lost(
    clock: ManualClock, vigil: Vigil, opening: Opening
) -> None:
    assert vigil.look(lambda ticket: False) is False
    assert vigil.open(opening, clock(), GENERATION)


def test_a_stream_that_never_stood(clock: ManualClock, vigil: Vigil) -> None:
    """Nothing was heard since the session was asked for."""
    assert not vigil.open(SAME, clock(), GENERATION)
    clock.advance(WITNESS_S + 1)
    assert vigil.look(lambda ticket: False) is False
    assert vigil.open(OTHER, clock(), GENERATION)


def test_a_session_whose_daemon_was_killed_has_missed_nothing(
    double: Double,
    socket: Path,
    open_session: Callable[..., Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vigil_module, "WITNESS_S", 3600.0)
    events: list[object] = []
    callbacks = Callbacks(events.append, lambda: events.append("reopened"))
    session = open_session(callbacks=callbacks)
    double.stop()
    successor = Double(socket, "second")
    wait_for(lambda: "reopened" in events, "the session to be open again")
    assert events == ["reopened"]
    wait_for(lambda: session.state is SessionState.OPEN, "its stream to stand")
    successor.stop()


def test_a_session_that_was_lost_while_others_reset_the_space_says_so(
    double: Double, open_session: Callable[..., Session]
) -> None:
    events: list[object] = []
    session = open_session(callbacks=Callbacks(events.append, lambda: events.append("reopened")))
    for number, expected in ((1, ["reopened"]), (2, [cache_pb2.Resync(), "reopened"])):
        double.generation = number
        double.stage.end_stream(errors.NoSuchSession("gone"))
        wait_for(lambda: "reopened" in events, "the session to be open again")
        assert events == expected
        wait_for(lambda: session.state is SessionState.OPEN, "its stream to stand")
        events.clear()


def test_a_session_that_did_not_see_it_die_says_so_before_it_is_open_again(
    double: Double,
    socket: Path,
    open_session: Callable[..., Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vigil_module, "WITNESS_S", -1.0)
    events: list[object] = []
    sessions: list[Session] = []

    def note(event: object) -> None:
        events.append((event, sessions[0].ticket))

    sessions.append(open_session(callbacks=Callbacks(note, lambda: events.append("reopened"))))
    double.stop()
    successor = Double(socket, "second")
    wait_for(lambda: "reopened" in events, "the session to be open again")
    assert events == [(cache_pb2.Resync(), None), "reopened"]
    successor.stop()


@pytest.fixture
def listener(double: Double, socket: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a session that was opened a while ago."""
    process = subprocess.Popen(
        [sys.executable, "-m", "client.listener", f"unix:{socket}"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.communicate()


def test_a_session_that_stood_still_when_its_daemon_died_says_so(
    double: Double, socket: Path, listener: subprocess.Popen[str]
) -> None:
    """Others may have reset the space when the daemon had given it up already."""
    with stopped(listener):
        since = time.monotonic()
        double.stop()
        successor = Double(socket, "second")
        wait_for(lambda: time.monotonic() > since + WITNESS_S, "it to have stood still for long")
    assert listener.stdout is not None
    assert listener.stdout.readline() == "Resync\n"
    assert listener.stdout.readline() == "reopened\n"
    successor.stop()
