"""A session's stream: every event once, in order, to the newest reader."""

import threading
from collections.abc import Sequence

import pytest

from kvstow.server.core.errors import InvalidRequest, NoSuchSession
from kvstow.server.core.events import Event, TransferEnded
from kvstow.server.core.requests import StreamEnd
from kvstow.server.daemon.watch import Watcher
from support.daemons import Rig, running_daemon
from support.engine import Engine, keys
from support.waiting import wait_for


class Reader:
    """Reads a stream on a thread of its own, as the rpc layer does."""

    def __init__(self, stream: Watcher) -> None:
        self.stream = stream
        self.batches: list[Sequence[tuple[int, Event]]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while (batch := self.stream.next(60)) is not None:
            self.batches.append(batch)

    @property
    def numbers(self) -> list[int]:
        return [number for batch in self.batches for number, _ in batch]

    def has_seen_all(self, rig: Rig) -> bool:
        """Everything that waits for the session was read, or nothing ever will be."""
        sessions = rig.daemon.snapshot().sessions
        return not sessions or len(self.numbers) == sessions[0].unacknowledged

    def join(self) -> StreamEnd | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.stream.end


class CountedWaits(threading.Event):
    """Remembers for how long it was waited for, each time."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return super().wait(timeout)


def store_one_by_one(engine: Engine, count: int) -> None:
    """Store the same block again and again, acknowledging nothing."""
    for _ in range(count):
        engine.begin_store(keys(1), [0])
        engine.generation = engine.daemon.reset(engine.session, 60).generation


def test_a_reader_that_waits_is_woken_by_an_event_without_other_traffic(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    reader = Reader(rig.daemon.watch(engine.session, 0))
    engine.begin_store(keys(1), [0])
    wait_for(lambda: reader.numbers, "the report")
    ((number, event),) = reader.batches[0]
    assert number == 1
    assert isinstance(event, TransferEnded)
    engine.close()
    assert reader.join() is StreamEnd.CLOSED


def test_a_reader_sleeps_until_there_is_something_to_read(rig: Rig) -> None:
    """It does not look from time to time, which would make every report late by half of that time."""
    engine = Engine(rig.daemon, rig.place)
    let_go = rig.hold(count=1)
    engine.begin_store(keys(1), [0])
    rig.wait_held(1)
    stream = rig.daemon.watch(engine.session, 0)
    signal = stream._signal = CountedWaits()
    read: list[Sequence[tuple[int, Event]] | None] = []
    reader = threading.Thread(target=lambda: read.append(stream.next(3600)))
    reader.start()
    wait_for(lambda: signal.waits, "a reader that sleeps")
    let_go()
    reader.join(60)
    (batch,) = read
    assert batch
    assert [number for number, _ in batch] == [1]
    (waited,) = signal.waits
    assert waited is not None
    assert waited > 3000


def test_events_are_numbered_without_gaps_and_come_in_batches(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    store_one_by_one(engine, 50)  # three events each: report, reset, drained
    stream = rig.daemon.watch(engine.session, 0)
    sizes = []
    numbers: list[int] = []
    while batch := stream.next(0):
        sizes.append(len(batch))
        numbers += [number for number, _ in batch]
    assert numbers == list(range(1, 151))
    assert sizes == [64, 64, 22]


def test_a_new_stream_resumes_behind_what_was_seen(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    store_one_by_one(engine, 2)
    lost = rig.daemon.watch(engine.session, 0)
    assert [number for number, _ in lost.next(0) or ()] == [1, 2, 3, 4, 5, 6]
    lost.close()
    again = rig.daemon.watch(engine.session, 2)
    assert [number for number, _ in again.next(0) or ()] == [3, 4, 5, 6]
    assert rig.daemon.snapshot().sessions[0].unacknowledged == 4
    rig.daemon.acknowledge(engine.session, 6)
    assert rig.daemon.snapshot().sessions[0].unacknowledged == 0


def test_an_event_that_was_never_sent_cannot_be_acknowledged(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    with pytest.raises(InvalidRequest):
        rig.daemon.watch(engine.session, 7)
    rig.daemon.check()
    assert engine.stream.end is None  # nothing was replaced


def test_a_newer_stream_replaces_an_older_one_that_waits(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    older = Reader(rig.daemon.watch(engine.session, 0))
    newer = Reader(rig.daemon.watch(engine.session, 0))
    assert older.join() is StreamEnd.REPLACED
    older.stream.close()  # comes late, and must not take the session's life
    rig.clock.advance(3600)
    engine.begin_store(keys(1), [0])
    wait_for(lambda: newer.numbers, "the report on the newer stream")
    assert not older.numbers
    engine.close()
    newer.join()


def test_a_session_without_a_stream_ends_after_its_grace_time(rig: Rig) -> None:
    engine = Engine(rig.daemon, rig.place)
    assert engine.stream.next(0) == []
    engine.stream.close()
    assert engine.stream.next(0) is None
    rig.clock.advance(9)
    assert engine.hits(keys(1)).hit_count == 0
    rig.clock.advance(2)
    wait_for(lambda: not rig.daemon.snapshot().sessions, "the end of the session")
    with pytest.raises(NoSuchSession):
        engine.hits(keys(1))
    rig.daemon.check()


def test_a_reader_that_never_acknowledges_loses_its_session_and_its_stream() -> None:
    with running_daemon(max_events=4) as rig:
        engine = Engine(rig.daemon, rig.place)
        reader = Reader(rig.daemon.watch(engine.session, 0))
        for _ in range(1000):
            rig.daemon.reset_space(engine.space, 0)
            wait_for(lambda: reader.has_seen_all(rig), "the reader or its end")
            if reader.stream.end is not None:
                break
        assert reader.join() is StreamEnd.LOST
        rig.daemon.check()
