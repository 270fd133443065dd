"""Who wants to wait for abandoned copies waits for them, and for the daemon's answer that much longer."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from client.faults import STORE, held
from kvstow.client import Client
from kvstow.client.calls import Calls
from support.client_engine import PATIENT, ClientEngine
from support.kvstowd import Kvstowd
from support.waiting import wait_for

WAIT_S = 55.0

Way = Callable[[ClientEngine, Client], bool]
WAYS: dict[str, Way] = {
    "a reset by the engine": lambda engine, _: engine.session.reset(WAIT_S).drained,
    "a reset of one space": lambda _, client: (
        client.administration.reset_space(
            client.administration.spaces()[0].space_id, WAIT_S
        ).drained
    ),
    "a reset of all spaces": lambda _, client: all(
        found.result.drained for found in client.administration.reset_all(WAIT_S)
    ),
    "the end of an attachment": lambda engine, _: engine.session.detach(0, WAIT_S),
}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long answers were waited for."""
    found: list[float] = []
    answer, ask = Calls.answer, Calls.ask

    def noted_answer(calls: Calls, call: Any, budget_s: float, *rest: Any) -> Any:
        found.append(budget_s)
        return answer(calls, call, budget_s, *rest)

    def noted_ask(calls: Calls, method: Any, request: Any, limit_s: float, *rest: Any) -> Any:
        found.append(limit_s)
        return ask(calls, method, request, limit_s, *rest)

    monkeypatch.setattr(Calls, "answer", noted_answer)
    monkeypatch.setattr(Calls, "ask", noted_ask)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_it_returns_when_the_last_copy_has_ended(
    daemon: Kvstowd, engine: ClientEngine, limits: list[float], way: str
) -> None:
    drained: list[bool] = []
    with Client(daemon.target, PATIENT) as client:
        waiting = threading.Thread(target=lambda: drained.append(WAYS[way](engine, client)))
        with held(daemon, STORE) as wait_held:
            engine.begin_store([1, 2], [0, 1])
            wait_held()
            waiting.start()
            wait_for(
                lambda: client.administration.transfers().transfers[0].abandoned, "the beginning"
            )
            assert not drained
        waiting.join()
        assert drained == [True]
        assert max(limits) == WAIT_S + PATIENT.control_s
        client.administration.check_ledger()
