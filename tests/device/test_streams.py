"""Order, pieces and ends of copies, made by threads that a test lets go on piece by piece."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from device.rig import Recorder, blocks_in_a_row, make_copy
from kvstow.server.device.base import Copy, DeviceError, Direction
from kvstow.server.device.streams import CopyPiece, Streams
from support.waiting import DEADLINE_S

BLOCK_BYTES = 8
PIECE_BYTES = 2 * BLOCK_BYTES


class Steps:
    """Copies nothing; every piece waits until the test lets it go on, and may be made to fail."""

    def __init__(self) -> None:
        self._reached: queue.Queue[int] = queue.Queue()
        self._allowed = threading.Semaphore(0)
        self.failed_spans: Sequence[tuple[int, str]] = ()
        self.error: Exception | None = None

    def prepare(self, copy: Copy) -> CopyPiece:
        return lambda piece: self._make(copy.transfer)

    def _make(self, transfer: int) -> Sequence[tuple[int, str]]:
        self._reached.put(transfer)
        assert self._allowed.acquire(timeout=DEADLINE_S)
        if self.error is not None:
            raise self.error
        return self.failed_spans

    def reached(self) -> int:
        """Wait for a thread to come to a piece; return whose."""
        return self._reached.get(timeout=DEADLINE_S)

    def allow(self, piece_count: int = 1) -> None:
        """Let pieces go on."""
        self._allowed.release(piece_count)

    def order(self, piece_count: int) -> list[int]:
        """Let pieces go on one at a time; return whose each one behind them is, in order."""
        order = []
        for _ in range(piece_count):
            self.allow()
            order.append(self.reached())
        return order


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def streams(steps: Steps) -> Iterator[Streams]:
    streams = Streams(steps.prepare, 1, PIECE_BYTES)
    yield streams
    steps.allow(1000)
    streams.close()


def submit(
    streams: Streams, direction: Direction, transfer: int, piece_count: int, **owner: bool
) -> Recorder:
    recorder = Recorder(**owner)
    spans = blocks_in_a_row(2 * piece_count, BLOCK_BYTES)
    streams.submit(make_copy(recorder, direction, spans, transfer=transfer))
    return recorder


def test_a_load_overtakes_the_rest_of_a_store(streams: Streams, steps: Steps) -> None:
    store = submit(streams, Direction.STORE, 1, piece_count=3)
    assert steps.reached() == 1
    load = submit(streams, Direction.LOAD, 2, piece_count=2)

    assert steps.order(4) == [2, 2, 1, 1]
    assert load.wait_end().copied_bytes == 2 * PIECE_BYTES
    steps.allow()
    assert store.wait_end().copied_bytes == 3 * PIECE_BYTES


@pytest.mark.parametrize("direction", Direction)
def test_copies_of_one_direction_take_turns(
    streams: Streams, steps: Steps, direction: Direction
) -> None:
    submit(streams, direction, 1, piece_count=4)
    assert steps.reached() == 1
    submit(streams, direction, 2, piece_count=1)
    submit(streams, direction, 3, piece_count=2)

    assert steps.order(6) == [1, 2, 3, 1, 3, 1]


def test_a_copy_ends_with_its_last_piece_not_after_the_next_copy(
    streams: Streams, steps: Steps
) -> None:
    first = submit(streams, Direction.LOAD, 1, piece_count=1)
    submit(streams, Direction.LOAD, 2, piece_count=3)
    assert steps.reached() == 1
    steps.allow()
    assert steps.reached() == 2  # and stays there

    assert first.wait_end().failures == []


def test_an_abandoned_copy_stops_at_its_next_piece(streams: Streams, steps: Steps) -> None:
    store = submit(streams, Direction.STORE, 1, piece_count=1000)
    assert steps.reached() == 1
    store.abandon()
    steps.allow()

    end = store.wait_end()
    assert end.copied_bytes == PIECE_BYTES
    assert end.failures == [(block, "abandoned") for block in range(2, 2000)]


def test_a_copy_that_is_not_wanted_is_not_made_and_not_ended(
    streams: Streams, steps: Steps
) -> None:
    unwanted = submit(streams, Direction.LOAD, 1, piece_count=1, wanted=False)
    wanted = submit(streams, Direction.LOAD, 2, piece_count=1)

    assert steps.reached() == 2
    steps.allow()
    wanted.wait_end()
    assert (unwanted.start_count, unwanted.ends) == (1, [])
    assert streams.queue_depth(Direction.LOAD) == 0


def test_a_copy_of_nothing_starts_and_ends(streams: Streams) -> None:
    end = submit(streams, Direction.STORE, 1, piece_count=0).wait_end()

    assert (end.failures, end.copied_bytes) == ([], 0)


@pytest.mark.parametrize("error", [DeviceError("stuck"), OSError("gone"), ZeroDivisionError("!")])
def test_an_exception_fails_the_blocks_of_its_piece_only(
    streams: Streams, steps: Steps, error: Exception
) -> None:
    store = submit(streams, Direction.STORE, 1, piece_count=3)
    assert steps.reached() == 1
    steps.order(1)
    steps.error = error
    steps.order(1)
    steps.error = None
    steps.allow()

    end = store.wait_end()
    assert end.failures == [(block, f"{type(error).__name__}: {error}") for block in (2, 3)]
    assert end.copied_bytes == 2 * PIECE_BYTES


def test_a_copy_that_cannot_be_prepared_fails_whole() -> None:
    def prepare(copy: Copy) -> CopyPiece:
        raise DeviceError("closed")

    streams = Streams(prepare, 2, PIECE_BYTES)
    end = submit(streams, Direction.LOAD, 1, piece_count=3).wait_end()
    streams.close()

    assert end.failures == [(block, "DeviceError: closed") for block in range(6)]


def test_a_failed_span_fails_its_blocks(streams: Streams, steps: Steps) -> None:
    steps.failed_spans = [(0, "gone")]
    load = submit(streams, Direction.LOAD, 1, piece_count=1)
    steps.allow()

    end = load.wait_end()
    assert (end.failures, end.copied_bytes) == ([(0, "gone"), (1, "gone")], 0)


def test_two_threads_work_on_one_copy_and_end_it_once(steps: Steps) -> None:
    streams = Streams(steps.prepare, 2, PIECE_BYTES)
    load = submit(streams, Direction.LOAD, 1, piece_count=3)
    assert [steps.reached(), steps.reached()] == [1, 1]
    assert load.ends == []
    steps.allow(3)

    assert load.wait_end().copied_bytes == 3 * PIECE_BYTES
    streams.close()
    assert len(load.ends) == 1


def test_what_is_not_copied_at_close_ends_as_failed(steps: Steps) -> None:
    streams = Streams(steps.prepare, 1, PIECE_BYTES)
    running = submit(streams, Direction.STORE, 1, piece_count=3)
    assert steps.reached() == 1
    queued = submit(streams, Direction.STORE, 2, piece_count=1)
    closing = threading.Thread(target=streams.close)
    closing.start()
    wait_closing(streams)
    steps.allow()
    closing.join(DEADLINE_S)
    late = submit(streams, Direction.LOAD, 3, piece_count=1)

    closed = "the device was closed"
    assert running.wait_end().failures == [(block, closed) for block in range(2, 6)]
    assert running.wait_end().copied_bytes == PIECE_BYTES
    for recorder in (queued, late):
        assert recorder.wait_end().failures == [(0, closed), (1, closed)]
        assert recorder.start_count == len(recorder.ends) == 1


def wait_closing(streams: Streams) -> None:
    """Wait until `close` is seen: from then on what is submitted ends at once, while the only thread is busy."""
    deadline = time.monotonic() + DEADLINE_S
    while not submit(streams, Direction.LOAD, 9, piece_count=1).ends:
        assert time.monotonic() < deadline, "never closed"


def test_the_depth_counts_copies_that_have_not_ended(streams: Streams, steps: Steps) -> None:
    first = submit(streams, Direction.STORE, 1, piece_count=2)
    second = submit(streams, Direction.STORE, 2, piece_count=1)
    steps.reached()

    assert streams.queue_depth(Direction.STORE) == 2
    assert streams.queue_depth(Direction.LOAD) == 0
    steps.allow(3)
    first.wait_end()
    second.wait_end()
    assert streams.queue_depth(Direction.STORE) == 0


def test_what_is_given_up_fails_and_what_is_being_copied_goes_on(
    streams: Streams, steps: Steps
) -> None:
    running = submit(streams, Direction.STORE, 1, piece_count=3)
    assert steps.reached() == 1
    queued = submit(streams, Direction.STORE, 2, piece_count=2)
    unwanted = submit(streams, Direction.LOAD, 3, piece_count=1, wanted=False)
    streams.give_up("it hangs")

    assert queued.wait_end().failures == [(block, "it hangs") for block in range(4)]
    assert (unwanted.start_count, unwanted.ends) == (1, [])
    assert running.ends == []
    steps.allow()
    end = running.wait_end()
    assert end.failures == [(block, "it hangs") for block in range(2, 6)]
    assert end.copied_bytes == PIECE_BYTES
    assert [streams.queue_depth(direction) for direction in Direction] == [0, 0]


def test_a_thread_that_hangs_is_not_waited_for_longer_than_asked(steps: Steps) -> None:
    streams = Streams(steps.prepare, 1, PIECE_BYTES)
    running = submit(streams, Direction.STORE, 1, piece_count=1)
    assert steps.reached() == 1

    assert not streams.close(limit_s=0.0)
    assert running.ends == []
    steps.allow()
    assert streams.close()
    assert running.wait_end().failures == []
