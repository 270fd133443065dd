"""Ranks in processes of their own, through a restart of the daemon."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from client.double import Double
from client.spaces import identity
from kvstow.client import (
    Callbacks,
    Client,
    Refused,
    RemoteRank,
    Session,
    SessionState,
    TransferState,
    Unreachable,
)
from kvstow.server.core import errors
from support.client_engine import PATIENT
from support.kvstowd import running_kvstowd
from support.waiting import DEADLINE_S, wait_for


class Worker:
    """A rank in another process."""

    def __init__(self, rank: int, target: str) -> None:
        command = [sys.executable, "-m", "client.worker", str(rank), target]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
        )

    def say(self, line: str) -> str:
        """Tell it something; returns its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        return self._process.stdout.readline().strip()

    def follow(self, session: Session) -> None:
        """Tell it the session's ticket."""
        assert session.ticket is not None
        ticket = session.ticket
        assert self.say(f"ticket {ticket.boot_id} {ticket.session_id}") == "attached"

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(DEADLINE_S) == 0
        self._process.stdout.close()


def exchange(workers: list[Worker], session: Session) -> None:
    """Store a block of both ranks and load it into another."""
    for rank, worker in enumerate(workers):
        worker.say(f"fill 0 {rank + 1}")
    stored = session.store([b"key1"], [0], session.generation)
    assert stored.wait(DEADLINE_S)
    assert stored.state is TransferState.DONE
    loaded = session.load(
        [b"key1"], [5], session.lookup("request", [b"key1"], budget_s=DEADLINE_S)
    )
    assert loaded.wait(DEADLINE_S)
    assert loaded.state is TransferState.DONE
    assert [worker.say("show 5") for worker in workers] == ["1", "2"]
    for worker in workers:
        worker.say("fill 5 0")


def test_ranks_in_other_processes_follow_the_session_through_a_restart(socket: Path) -> None:
    reopened: list[None] = []
    with running_kvstowd(socket.parent) as first, Client(first.target, PATIENT) as client:
        callbacks = Callbacks(on_reopen=lambda: reopened.append(None))
        workers = [Worker(rank, first.target) for rank in range(2)]
        with client.open(identity(2), "scheduler", callbacks=callbacks) as session:
            workers[0].follow(session)
            with pytest.raises(Refused, match="NOT_ATTACHED"):
                session.store([b"key1"], [0], session.generation)
            workers[1].follow(session)
            workers[1].follow(session)
            exchange(workers, session)
            first.kill()
            with running_kvstowd(socket.parent):
                wait_for(lambda: session.state is SessionState.OPEN and reopened, "the session")
                for worker in workers:
                    worker.follow(session)
                exchange(workers, session)
        for worker in workers:
            worker.close()


def test_an_attach_without_an_answer_may_have_succeeded(
    double: Double, session: Session, socket: Path
) -> None:
    """So it is detached at the daemon, and a repetition that finds it attached is content."""
    with RemoteRank(0, [], [], f"unix:{socket}", limit_s=DEADLINE_S) as rank:
        assert rank.detach()
        assert double.calls["DetachMemory"] == 0
        follow_without_an_answer(rank, double, session)
        assert rank.detach()
        assert double.calls["DetachMemory"] == 1
        double.refusals["AttachMemory"] = errors.RankAttached("rank 0 is attached")
        with pytest.raises(Refused, match="RANK_ATTACHED"):
            rank.follow(session.ticket)
        del double.refusals["AttachMemory"]
        follow_without_an_answer(rank, double, session)
        double.refusals["AttachMemory"] = errors.RankAttached("rank 0 is attached")
        rank.follow(session.ticket)
        assert rank.detach()
        assert double.calls["DetachMemory"] == 2


def follow_without_an_answer(rank: RemoteRank, double: Double, session: Session) -> None:
    double.stage.break_off("AttachMemory")
    with pytest.raises(Unreachable):
        rank.follow(session.ticket)
