"""Transfers that wait for a copy thread: they end at once when nobody wants them, and are never copied."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kvstow.server.core.spans import Spans
from kvstow.server.core.types import Group, Layout, TransferId, TransferState
from kvstow.server.device.base import Direction
from kvstow.server.device.kernel import CopyKernel, Memory, Regions, load_kernel
from support.daemons import Rig, running_daemon
from support.engine import ONE_RANK, Engine, identity, keys
from support.waiting import wait_for

TWO_RANKS = Layout("float32", 16, 2, "", (Group((512,)),))


class Gate:
    """A kernel whose copies stop at a gate; the others wait behind them in the device's queue."""

    name = "gate"

    def __init__(self, inner: CopyKernel) -> None:
        self._inner = inner
        self._open = threading.Event()
        self.copy_count = 0

    def copy(
        self, direction: Direction, pool: Memory, regions: Regions, spans: Spans
    ) -> Sequence[int]:
        """See `CopyKernel.copy`."""
        self.copy_count += 1
        assert self._open.wait(60)
        return self._inner.copy(direction, pool, regions, spans)

    def open(self) -> None:
        """Let everything through from now on."""
        self._open.set()


@contextmanager
def gated(layout: Layout = ONE_RANK) -> Iterator[tuple[Rig, Engine, Gate]]:
    """A daemon with one copy thread, which an engine's first store keeps busy."""
    gate = Gate(load_kernel())
    with running_daemon(layout=layout, copy_threads=1, kernel=gate) as rig:
        engine = Engine(rig.daemon, rig.place, identity(layout))
        engine.begin_store(keys(1), [0])
        wait_for(lambda: gate.copy_count, "the first copy")
        try:
            yield rig, engine, gate
        finally:
            gate.open()


def test_a_reset_ends_a_queued_store_at_once_and_its_slots_are_free() -> None:
    with gated() as (rig, engine, gate):
        queued = engine.begin_store(keys(2, 3), [1, 2])
        result = rig.daemon.reset(engine.session, 0)
        rig.daemon.check()
        assert (result.ended_count, result.abandoned_stores) == (1, 1)
        assert engine.ended(queued.transfer).state is TransferState.ABANDONED
        (table,) = rig.daemon.snapshot().tables
        assert (table.quarantined, table.writing) == (1, 0)
        gate.open()
        assert rig.daemon.reset(engine.session, 3600).drained
        engine.generation = 3
        engine.store(keys(2, 3), [1, 2])
        engine.load(keys(2, 3), [3, 4])
        assert gate.copy_count == 3
        assert rig.daemon.snapshot().counters.late_completions == 0
        assert rig.daemon.drain(3600)  # nothing is counted as in the air any more


@pytest.mark.parametrize("end", ["cancel", "detach", "close"])
def test_a_queued_transfer_that_is_not_wanted_any_more_is_not_copied(end: str) -> None:
    with gated() as (rig, engine, gate):
        queued = engine.begin_store(keys(2, 3), [1, 2])
        match end:
            case "cancel":
                assert rig.daemon.cancel(engine.session, [queued.transfer]) == (1, 0)
            case "detach":
                assert not rig.daemon.detach(engine.session, 0, 0)
            case _:
                engine.close()
        rig.daemon.check()
        assert [transfer.id for transfer in rig.daemon.snapshot().transfers] == [1]
        gate.open()
        rig.landed(queued.transfer)
        other = Engine(rig.daemon, rig.place)
        other.store(keys(2, 3), [0, 1])
        assert gate.copy_count == 2
        assert rig.daemon.snapshot().counters.late_completions == 0
        assert rig.daemon.drain(3600)


def test_a_call_repeated_while_its_copy_runs_copies_nothing_and_is_reported_once() -> None:
    with gated() as (rig, engine, gate):
        queued = engine.begin_store(keys(2, 3), [1, 2])
        engine.last_transfer = TransferId(queued.transfer - 1)
        again = engine.begin_store_groups({0: (keys(2, 3), [1, 2])})
        assert again.repeated
        gate.open()
        assert engine.ended(queued.transfer).state is TransferState.DONE
        assert rig.daemon.drain(3600)
        assert gate.copy_count == 2
        assert len(engine.reports(queued.transfer)) == 1


def test_the_ranks_of_an_abandoned_transfer_that_have_not_begun_do_not() -> None:
    with gated(TWO_RANKS) as (rig, engine, gate):
        assert rig.daemon.cancel(engine.session, [engine.last_transfer]) == (0, 1)
        gate.open()
        assert engine.ended(engine.last_transfer).state is TransferState.ABANDONED
        assert gate.copy_count == 1


def test_only_a_copy_that_has_begun_says_that_the_device_is_stuck() -> None:
    with gated() as (rig, engine, _):
        engine.begin_store(keys(2, 3), [1, 2])
        rig.clock.advance(3600)
        wait_for(lambda: rig.daemon.snapshot().counters.overdue == 2, "two overdue transfers")
        assert rig.daemon.status().stuck_count == 1
