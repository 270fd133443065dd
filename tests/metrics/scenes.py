"""What a daemon may live through, scene by scene: work, pressure, a copy that hangs, a reset, failures, a dead engine, a drain."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import grpc
import pytest

from kvstow.client import Refused, TransferState
from kvstow.v1 import debug_pb2, debug_pb2_grpc
from kvstow.v1.transfer_pb2 import TRANSFER_KIND_STORE
from metrics.load import BLOCK_BYTES, LONG_S, LoadEngine, engine_to_kill, load_engine
from support.kvstowd import Kvstowd
from support.waiting import wait_for

SETTINGS = {
    "pool_size": "8MiB",
    "extent_size": "512KiB",
    "debug_service": True,
    "session_grace_s": 600,
}
FITS, DOES_NOT_FIT = 8, 48
"""So many documents of the small model use a quarter of the pool; so many of the large one, three times the pool."""

PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Stage:
    """Who plays.

    Args:
        daemon: the daemon.
        small, large: engines; the blocks of the second are twice as large.
        pace_s: how long work goes on in a scene.
        seen: told the name of each scene while what is to be seen of it lasts.
    """

    daemon: Kvstowd
    small: LoadEngine
    large: LoadEngine
    pace_s: float
    seen: Callable[[str], None]

    def work(self, small: int, large: int) -> None:
        """Both serve requests for so many documents each, a few of which are asked for often."""
        dice = random.Random(small)
        until = time.monotonic() + self.pace_s
        while time.monotonic() < until:
            for engine, documents in ((self.small, small), (self.large, large)):
                if documents:
                    engine.serve(min(int(dice.paretovariate(0.6)), documents))
            time.sleep(PAUSE_S)


def play(daemon: Kvstowd, pace_s: float, seen: Callable[[str], None]) -> None:
    """All scenes; the daemon is gone afterwards."""
    with (
        load_engine(daemon.target, "small") as small,
        load_engine(daemon.target, "large", 2 * BLOCK_BYTES) as large,
    ):
        stage = Stage(daemon, small, large, pace_s, seen)
        stage.work(FITS, 0)
        seen("work")
        stage.work(FITS, DOES_NOT_FIT)
        seen("pressure")
        _hang(stage)
        _fail(stage)
        _be_refused(stage)
        _let_leases_expire(stage)
        _lose_an_engine(stage)
        _find_no_room(stage)
        stage.work(FITS, FITS)
        seen("calm")
        _drain(stage)
    seen("gone")


def _hang(stage: Stage) -> None:
    """A store hangs; its space is reset meanwhile, and others go on."""
    small = stage.small
    with _faulty(stage.daemon, small, hold=debug_pb2.HoldCopy()):
        held = small.session.store(
            small.keys(500), range(16), small.session.generation, deadline_s=0.2
        )
        wait_for(lambda: not stage.daemon.serving("device"), "the deadline")
        small.session.reset()
        stage.work(0, DOES_NOT_FIT)
        stage.seen("hang")
    assert held.wait(LONG_S)
    assert held.state is TransferState.ABANDONED
    stage.work(FITS, 0)
    stage.seen("recovery")


def _fail(stage: Stage) -> None:
    """Some transfers fail."""
    broken = debug_pb2.FailBlocks(blocks=[0], reason="made to fail")
    with _faulty(stage.daemon, stage.small, fail=broken):
        for document in range(1000, 1020):
            stage.small.serve(document)
    stage.seen("failures")


@contextmanager
def _faulty(daemon: Kvstowd, engine: LoadEngine, **fault: Any) -> Iterator[None]:
    """The stores of one engine have a fault meanwhile."""
    ticket = engine.session.ticket
    assert ticket is not None
    with grpc.insecure_channel(daemon.target) as channel:
        stub = debug_pb2_grpc.DebugServiceStub(channel)
        stores = debug_pb2.Fault(session_id=ticket.session_id, kind=TRANSFER_KIND_STORE, **fault)
        number = stub.AddFault(debug_pb2.AddFaultRequest(fault=stores)).fault_id
        yield
        stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))


def _be_refused(stage: Stage) -> None:
    """An engine asks for what cannot be, often."""
    session, twice = stage.small.session, stage.small.keys(1)[:1] * 2
    for _ in range(60):
        with pytest.raises(Refused, match="DUPLICATE_KEY"):
            session.store(twice, [0, 1], session.generation)
        time.sleep(PAUSE_S)
    stage.seen("refusals")


def _let_leases_expire(stage: Stage) -> None:
    """An engine looks documents up and forgets them."""
    stage.small.serve(1)
    for _ in range(20):
        stage.small.look_up(1, ttl_s=0.1)
    wait_for(lambda: stage.daemon.metrics()["kvstow_leases"] == 0, "the end of the leases")
    stage.seen("expired leases")


def _lose_an_engine(stage: Stage) -> None:
    """The process of an engine dies."""
    with engine_to_kill(stage.daemon.target) as engine:
        engine.kill()
        cause = "kvstow_session_ends_total process_died"
        wait_for(lambda: stage.daemon.metrics()[cause] == 1, "the end of its session")
    stage.seen("dead engine")


def _find_no_room(stage: Stage) -> None:
    """So much is held that stores find no room, for a while."""
    small, held, until = stage.small, [], time.monotonic() + stage.pace_s
    for document in count(3000):
        small.serve(document)
        held.append(small.look_up(document).request)
        if document >= 3000 + 3 * DOES_NOT_FIT:
            time.sleep(PAUSE_S)
            if time.monotonic() > until:
                break
    stage.seen("no room")
    small.session.release(*held)


def _drain(stage: Stage) -> None:
    """The daemon is to end, and a copy keeps it from that."""
    with stage.daemon.held_stores():
        stage.small.session.store(stage.small.keys(600), range(16), stage.small.session.generation)
        stage.daemon.terminate()
        stage.daemon.wait_line("draining; a second signal ends the process at once")
        stage.seen("drain")
    assert stage.daemon.wait_exit() == 0
