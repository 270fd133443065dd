"""`kvstow transfers --stuck`: whose transfers hang, and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import ask, run
from kvstow.cli.stuck import advice
from kvstow.v1 import admin_pb2, transfer_pb2
from support.client_engine import ClientEngine, connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import wait_for


@pytest.fixture
def impatient(directory: Path) -> Iterator[Kvstowd]:
    """A daemon whose transfers are soon past their deadline."""
    with running_kvstowd(directory, debug_service=True, max_deadline_s=0.05) as running:
        yield running


def test_none_is_stuck(daemon: Kvstowd, engine: ClientEngine) -> None:
    with daemon.held_stores():
        engine.begin_store([9], [9])
        assert ask(daemon, "transfers")["total_count"] == 1
        assert ask(daemon, "transfers", "--stuck") == {"total_count": 0, "transfers": []}


def test_a_transfer_past_its_deadline_is_named_with_its_engine(impatient: Kvstowd) -> None:
    with connected_engine(impatient.target) as engine, impatient.held_stores():
        engine.begin_store([1, 2], [0, 1])
        wait_for(lambda: ask(impatient, "transfers", "--stuck")["total_count"], "the deadline")
        (stuck,) = ask(impatient, "transfers", "--stuck")["transfers"]
        assert (stuck["overdue"], stuck["session_name"]) == (True, "engine")
        assert (stuck["unfinished_ranks"], stuck["block_count"]) == ([0], 2)
        assert stuck["age_s"] >= 0.05
        assert "rank 0 of 'engine'" in stuck["advice"]
        shown = run(impatient, "transfers", "--stuck").stdout
        assert "past their deadline: 1 of 1" in shown
        assert "engine" in shown


def transfer(**fields: object) -> admin_pb2.Transfer:
    running = {"state": transfer_pb2.TRANSFER_STATE_RUNNING, "unfinished_ranks": [2, 3]}
    return admin_pb2.Transfer(**(running | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stuck", "phrases"),
    [
        (transfer(state=transfer_pb2.TRANSFER_STATE_QUEUED), ["has not begun", "copy_threads"]),
        (transfer(), ["its engine is gone", "rank 2, 3", "restart the daemon"]),
        (transfer(session_name="vllm-7"), ["rank 2, 3 of 'vllm-7'", "must not reuse the blocks"]),
    ],
)
def test_what_to_do_depends_on_who_waits(stuck: admin_pb2.Transfer, phrases: list[str]) -> None:
    for phrase in phrases:
        assert phrase in advice(stuck)
