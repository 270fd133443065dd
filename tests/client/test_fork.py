"""A forked process leaves the connection of its parent alone."""

import os
from collections.abc import Callable

import pytest

from kvstow.client import Client, TransferState, Unreachable
from support.client_engine import IDENTITY, PATIENT, ClientEngine, keys
from support.kvstowd import Kvstowd


def exit_code_of_child(work: Callable[[], None]) -> int:
    """Do something in a forked process; 0 if it raised nothing."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_process_asks_nothing_and_closes_nothing(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    engine.store([1, 2], [0, 1])

    def use_what_is_not_ours() -> None:
        session = engine.session
        hits = session.lookup("request", keys([1, 2]))
        assert (hits.count, hits.missed_because) == (0, "not answering")
        assert session.store(keys([3]), [3], session.generation).state is TransferState.FAILED
        with pytest.raises(Unreachable, match="forked"):
            session.reset()
        session.close()

    assert exit_code_of_child(use_what_is_not_ours) == 0
    engine.load([1, 2], [6, 7])
    engine.store([3], [3])
    assert engine.session.counters().reopened == 0


def test_a_forked_process_opens_its_own_connection(daemon: Kvstowd) -> None:
    with Client(daemon.target, PATIENT) as client:

        def open_session() -> None:
            with pytest.raises(Unreachable, match="forked"):
                client.open(IDENTITY, "child")
            client.close()

        assert exit_code_of_child(open_session) == 0
        client.open(IDENTITY, "parent").close()
