"""An engine is interrupted (Ctrl-C) while it waits for the daemon: what it began is concluded without it."""

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from client.double import Double
from kvstow.client import Session, TransferState
from kvstow.client.calls import Calls
from support.waiting import wait_for

KEYS = [b"key1"]


@pytest.fixture(autouse=True)
def attentive() -> Iterator[None]:
    """Whoever runs tests in the background has the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted(double: Double, method: str) -> Iterator[None]:
    """The main thread is interrupted while it waits for an answer, which comes afterwards."""

    main = threading.get_ident()

    def waits() -> bool:
        """The call may have arrived before whoever sent it waits for its answer."""
        frames = traceback.walk_stack(sys._current_frames()[main])
        return any(frame.f_code is Calls.answer.__code__ for frame, _ in frames)

    def interrupt() -> None:
        wait_for(lambda: double.calls[method] == 1 and waits(), "the call")
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with double.stage.held(method):
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            yield
        thread.join()


def store(session: Session) -> None:
    """Offer a block."""
    session.store(KEYS, [0], session.generation)


def load(session: Session) -> None:
    """Load a block."""
    session.load(KEYS, [0], session.lookup("request", KEYS))


@pytest.mark.parametrize(("method", "send"), [("Store", store), ("Load", load)])
def test_a_transfer_is_cancelled_and_others_have_their_turn(
    double: Double, session: Session, method: str, send: Callable[[Session], None]
) -> None:
    with interrupted(double, method):
        send(session)
    wait_for(lambda: double.calls["Cancel"], "the transfer to be cancelled")
    assert session.counters().unfinished == 1
    double.end(1)
    wait_for(lambda: not session.counters().unfinished, "the report")
    following = session.store(KEYS, [0], session.generation)
    double.end(2)
    wait_for(following.done, "the end of the next transfer")
    assert following.state is TransferState.DONE


def test_a_lookup_releases_what_it_held(double: Double, session: Session) -> None:
    with interrupted(double, "Lookup"):
        session.lookup("request", KEYS)
    wait_for(lambda: double.calls["Release"] == 1, "the lease to be released")
    assert not double.leases


def test_a_reset_is_made(double: Double, session: Session) -> None:
    with interrupted(double, "Reset"):
        session.reset()
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit of the new generation")
    assert session.generation.number == double.generation == 2
    assert double.calls["Reset"] == 1
