"""The workers' side: attaching on a thread of its own, waiting for copies, and what travels between the halves."""

import logging
import pickle
import threading
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import pytest

from kvstow.client import Refused, Ticket, Unreachable
from kvstow.client.engines.offload import attachment as attachment_module
from kvstow.client.engines.offload import worker
from kvstow.client.engines.offload.attachment import Attachment
from kvstow.client.engines.offload.board import SLOTS, Board, BoardView
from kvstow.client.engines.offload.steps import EndedLoad, Report, Step
from kvstow.client.engines.offload.worker import WorkerHalf
from kvstow.client.remote_rank import RemoteRank
from support.waiting import wait_for

FIRST, SECOND = Ticket("boot", 1), Ticket("boot", 2)


class Rank(RemoteRank):
    """A rank whose daemon answers as a test says."""

    def __init__(self, answers: Sequence[Exception | None]) -> None:
        super().__init__(0, [], [], "unix:/nowhere")
        self.answers = list(answers)
        self.asked: list[Ticket | None] = []
        self.is_closed = False

    def follow(self, ticket: Ticket | None) -> None:
        self.asked.append(ticket)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    def close(self) -> None:
        self.is_closed = True
        super().close()


@pytest.fixture
def board() -> Iterator[Board]:
    """The scheduler half's."""
    with Board() as board:
        yield board


def refusal(reason: str) -> Refused:
    """A refusal of the daemon."""
    return Refused(reason, "no", "Do something else.", {})


def test_memory_is_attached_as_soon_as_the_daemon_answers() -> None:
    rank = Rank([Unreachable("no answer"), Unreachable("no answer")])
    with Attachment(rank) as attachment:
        assert attachment.attached is None
        attachment.follow(None)
        attachment.follow(FIRST)
        wait_for(lambda: attachment.attached == FIRST, "the memory to be attached")
        assert rank.asked == [FIRST] * 3
        attachment.follow(FIRST)
        attachment.follow(SECOND)
        wait_for(lambda: attachment.attached == SECOND, "it to follow the session")
        assert rank.asked == [FIRST] * 3 + [SECOND]
    assert rank.is_closed


@pytest.mark.parametrize(
    ("reason", "is_told"), [("NO_SUCH_SESSION", False), ("REGION_INVALID", True)]
)
def test_what_is_refused_is_not_tried_again_until_there_is_a_new_session(
    caplog: pytest.LogCaptureFixture, reason: str, is_told: bool
) -> None:
    """A session that is over is followed by a newer one; anything else somebody has to hear of."""
    rank = Rank([refusal(reason)])
    with Attachment(rank) as attachment:
        attachment.follow(FIRST)
        wait_for(lambda: rank.asked, "the daemon to be asked")
        attachment.follow(SECOND)
        wait_for(lambda: attachment.attached == SECOND, "it to follow the session")
    assert rank.asked == [FIRST, SECOND]
    told = [each for each in caplog.records if each.name == attachment_module.__name__]
    assert [each.levelno for each in told] == [logging.ERROR] * is_told


def test_following_ends_while_the_daemon_does_not_answer() -> None:
    rank = Rank([Unreachable("no answer")] * 1000)
    attachment = Attachment(rank)
    attachment.follow(FIRST)
    wait_for(lambda: rank.asked, "the daemon to be asked")
    attachment.close()
    assert rank.is_closed
    assert attachment.attached is None


def test_a_store_that_has_not_ended_is_waited_for_no_longer_than_allowed(board: Board) -> None:
    view = BoardView(board.path)
    assert not view.wait(1, 0.001)
    board.mark(1)
    assert view.wait(1, 0)
    assert not view.wait(1 + SLOTS, 0.001), "the slot still holds the number before"
    board.mark(1 + SLOTS)
    assert view.wait(1, 0), "whoever has the slot now, this one has ended"
    assert view.wait(1 + SLOTS, 0)


def test_a_step_waits_for_its_fences_and_says_so(
    board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    half = WorkerHalf(3, [], [], "unix:/nowhere")
    step = Step(7, None, board.path, fences=(1, 2))
    done = threading.Event()

    def prepare() -> None:
        half.prepare(step)
        done.set()

    thread = threading.Thread(target=prepare)
    with patch.object(worker, "_WARN_S", 0.01):
        thread.start()
        board.mark(1)
        wait_for(lambda: "waiting for kvstowd" in caplog.text, "a warning")
        assert not done.is_set()
        board.mark(2)
        wait_for(done.is_set, "the step to go on")
    thread.join()
    assert half.report(step) == Report(7, {})
    half.close()


def test_a_report_names_the_step_and_what_is_attached(board: Board) -> None:
    with patch.object(worker, "RemoteRank", lambda *given: Rank([])):
        half = WorkerHalf(3, [], [], "unix:/nowhere")
    step = Step(8, FIRST, board.path)
    half.prepare(step)
    wait_for(lambda: half.report(step) == Report(8, {3: FIRST}), "the memory to be attached")
    half.close()


def test_reports_are_joined_over_the_ranks() -> None:
    """A step has been done when the last rank has done it."""
    joined = Report(8, {0: FIRST}).joined(Report(7, {1: SECOND}))
    assert joined == Report(7, {0: FIRST, 1: SECOND})


def test_what_travels_is_the_same_on_the_other_side() -> None:
    step = Step(9, SECOND, "/dev/shm/board", (1, 5), (EndedLoad("request", (3, 4)),))
    report = Report(9, {1: FIRST})
    assert pickle.loads(pickle.dumps((step, report))) == (step, report)
