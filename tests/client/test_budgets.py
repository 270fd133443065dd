"""A daemon that does not answer, or too late: misses and failed transfers, and nothing is lost."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.double import Double
from client.spaces import SHORT_S, identity
from kvstow.client import (
    BreakerState,
    Budgets,
    Client,
    Generation,
    Refused,
    Session,
    TransferState,
)
from kvstow.client.breaker import THRESHOLD
from kvstow.client.calls import Calls
from kvstow.server.core import errors
from kvstow.server.core.types import TransferState as Reported
from support.waiting import DEADLINE_S, wait_for

KEYS = [b"key1", b"key2"]
HOUR_S = 3600.0


def test_no_answer_is_a_miss_and_after_some_the_daemon_is_asked_no_more(
    double: Double, session: Session
) -> None:
    with double.stage.held("Lookup"), double.stage.held("GetServerInfo"):
        for _ in range(10):
            assert session.lookup("request", KEYS, budget_s=SHORT_S).count == 0
        wait_for(lambda: double.calls["Lookup"] == THRESHOLD, "the calls to arrive")
        counters = session.counters()
        assert counters.breaker is not BreakerState.CLOSED
        assert (counters.lookups, counters.missed_count) == (10, 20)
        assert counters.failures == {"timed out": THRESHOLD, "not answering": 10 - THRESHOLD}
        assert session.store(KEYS, [0, 1], session.generation).reason == "not answering"
        assert double.calls["Store"] == 0
        assert double.calls["Lookup"] == THRESHOLD
    wait_for(lambda: session.lookup("request", KEYS).count == 1, "a hit")
    assert session.counters().breaker is BreakerState.CLOSED


def test_what_is_asked_waits_as_long_as_its_kind_may(
    double: Double, socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours: list[int] = []
    answer = Calls.answer

    def noted(calls: Calls, call: Any, budget_s: float, *rest: Any) -> Any:
        hours.append(math.ceil(budget_s / HOUR_S))  # what has passed of it does not matter
        return answer(calls, call, DEADLINE_S, *rest)

    budgets = Budgets(lookup_s=2 * HOUR_S, transfer_s=3 * HOUR_S, control_s=4 * HOUR_S)
    with (
        Client(f"unix:{socket}", budgets) as client,
        client.open(identity(), "engine") as session,
    ):
        monkeypatch.setattr(Calls, "answer", noted)
        for given_s in (None, HOUR_S):
            hits = session.lookup("request", KEYS[:1], budget_s=given_s)
            loaded = session.load(KEYS[:1], [0], hits, budget_s=given_s)
            stored = session.store(KEYS[:1], [0], hits.generation, budget_s=given_s)
            for transfer in (loaded, stored):
                double.end(transfer.id)
                assert transfer.wait(DEADLINE_S)
        session.reset()
    assert hours == [2, 3, 3, 1, 1, 1, 4]


def test_a_budget_that_is_used_up_before_the_call_is_none(
    double: Double, session: Session
) -> None:
    """An engine computes what is left of its own."""
    with double.stage.held("Lookup"), double.stage.held("Store"):
        assert session.lookup("request", KEYS, budget_s=-1).missed_because == "timed out"
        transfer = session.store(KEYS, [0, 1], session.generation, budget_s=-1)
        assert not transfer.done()
    double.end(transfer.id)
    assert transfer.wait(DEADLINE_S)


def test_a_late_answer_releases_what_it_holds(double: Double, session: Session) -> None:
    with double.stage.held("Lookup"):
        assert session.lookup("request", KEYS, budget_s=SHORT_S).missed_because == "timed out"
        assert not double.leases
    wait_for(lambda: double.calls["Release"] == 1 and not double.leases, "the release")


def test_a_late_store_ends_with_its_report(double: Double, session: Session) -> None:
    with double.stage.held("Store"):
        transfer = session.store(KEYS, [0, 1], session.generation, budget_s=SHORT_S)
        assert not transfer.done()
        assert transfer.statuses == ""
    double.end(transfer.id)
    assert transfer.wait(DEADLINE_S)
    assert (transfer.state, transfer.statuses) == (TransferState.DONE, "AA")


def test_while_a_transfer_is_unanswered_others_fail_at_once(
    double: Double, session: Session
) -> None:
    with double.stage.held("Store"):
        first = session.store(KEYS, [0, 1], session.generation, budget_s=SHORT_S)
        second = session.store(KEYS, [2, 3], session.generation, budget_s=3600.0)
        assert (second.state, second.id) == (TransferState.FAILED, 0)
        assert second.reason == "an earlier transfer is not answered"
    double.end(first.id)
    assert first.wait(DEADLINE_S)
    third = session.store(KEYS, [2, 3], session.generation)
    assert third.id > first.id
    assert double.calls["Store"] == 2


def test_a_report_that_overtakes_the_answer_waits_for_it(double: Double, session: Session) -> None:
    with double.stage.held("Store"):
        transfer = session.store(KEYS, [0, 1], session.generation, budget_s=SHORT_S)
        double.end(transfer.id)
        double.end(transfer.id + 100)
        wait_for(lambda: session.counters().ignored_reports == 1, "the reports to be heard")
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert transfer.statuses == "AA"


def test_a_late_refusal_fails_the_transfer_and_releases_its_lease(
    double: Double, session: Session
) -> None:
    double.refusals["Load"] = errors.KeyNotReady("key 0 is ABSENT", index=0)
    hits = session.lookup("request", KEYS)
    with double.stage.held("Load"):
        transfer = session.load(KEYS, [0, 1], hits, budget_s=SHORT_S)
        assert not transfer.done()
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.FAILED
    assert transfer.reason.startswith("KEY_NOT_READY")
    wait_for(lambda: not double.leases, "the release")


def test_a_late_transfer_that_is_not_wanted_is_cancelled_again(
    double: Double, session: Session
) -> None:
    """The first cancel may have overtaken the transfer."""
    with double.stage.held("Store"):
        transfer = session.store(KEYS, [0, 1], session.generation, budget_s=SHORT_S)
        session.cancel(transfer)
        wait_for(lambda: double.calls["Cancel"] == 1, "the first cancel")
    wait_for(lambda: double.calls["Cancel"] == 2, "the second cancel")
    double.end(transfer.id, Reported.ABANDONED)
    assert transfer.wait(DEADLINE_S)
    assert transfer.state is TransferState.ABANDONED


def test_a_store_of_which_nothing_is_accepted_is_done_at_once(
    double: Double, session: Session
) -> None:
    double.answers.status = "S"
    transfer = session.store(KEYS, [0, 1], session.generation)
    assert (transfer.state, transfer.statuses) == (TransferState.DONE, "SS")
    assert transfer.accepted_count == 0


def look_up(session: Session) -> None:
    session.lookup("request", KEYS)


def store(session: Session) -> None:
    session.store(KEYS, [0, 1], session.generation)


@pytest.mark.parametrize(
    ("method", "act", "refusal"),
    [
        ("Lookup", look_up, errors.TooManyLeases("4096 leases", limit=4096)),
        ("Store", store, errors.DuplicateKey("a key stands twice", group=0)),
        ("Store", store, errors.BlockOutOfRange("block 9", group=0, block_count=8)),
        ("Store", store, errors.TooManyTransfers("4096 transfers", limit=4096)),
        ("Store", store, errors.NotAttached("not attached", ranks=[1])),
    ],
)
def test_a_refusal_is_raised_with_its_reason_its_facts_and_the_next_step(
    double: Double,
    session: Session,
    method: str,
    act: Callable[[Session], None],
    refusal: errors.Refusal,
) -> None:
    double.refusals[method] = refusal
    with pytest.raises(Refused, match=str(refusal)) as raised:
        act(session)
    assert raised.value.reason == refusal.reason
    assert raised.value.next_step == refusal.next_step
    assert raised.value.facts == refusal.facts
    assert session.counters().failures == {refusal.reason: 1}
    assert session.counters().breaker is BreakerState.CLOSED
    assert session.counters().unfinished == 0


@pytest.mark.parametrize("refusal", [errors.ShuttingDown("drains"), errors.NotStarted("starts")])
def test_a_daemon_that_takes_no_work_is_a_miss(
    double: Double, session: Session, refusal: errors.Refusal
) -> None:
    generation = session.generation
    double.refusals["Store"] = double.refusals["Lookup"] = refusal
    transfer = session.store(KEYS, [0, 1], generation)
    assert transfer.state is TransferState.FAILED
    assert session.lookup("request", KEYS).count == 0


def test_a_stale_lookup_is_a_miss_and_the_next_one_names_the_new_generation(
    double: Double, session: Session
) -> None:
    double.refusals["Lookup"] = errors.StaleGeneration("generation 1 is over", generation=7)
    assert session.lookup("request", KEYS).missed_because == "STALE_GENERATION"
    del double.refusals["Lookup"]
    assert session.generation.number == 7
    assert session.lookup("request", KEYS).count == 1
    assert double.requests["Lookup"].generation == 7


def test_a_stale_store_is_raised_after_the_new_generation_was_taken_over(
    double: Double, session: Session
) -> None:
    double.refusals["Store"] = errors.StaleGeneration("generation 1 is over", generation=7)
    with pytest.raises(Refused, match="STALE_GENERATION"):
        session.store(KEYS, [0, 1], session.generation)
    assert session.generation.number == 7


def test_kv_of_an_earlier_era_is_refused_without_asking(double: Double, session: Session) -> None:
    old = session.generation
    session.reset()
    with pytest.raises(Refused, match="STALE_GENERATION"):
        session.store(KEYS, [0, 1], Generation(old.era, double.generation))
    assert double.calls["Store"] == 0
