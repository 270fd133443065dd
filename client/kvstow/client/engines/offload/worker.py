"""The worker half: attaches one rank's memory, keeps fences, and passes on what the scheduler says.

All of it on the worker's thread.
"""

import logging
from collections.abc import Sequence

from kvstow.client.closing import Closing
from kvstow.client.remote_rank import RemoteRank
from kvstow.v1 import cache_pb2

from .attachment import Attachment
from .board import BoardView
from .steps import Report, Step

_WARN_S = 5.0

_log = logging.getLogger(__name__)


class WorkerHalf(Closing):
    """The worker half of one rank.

    Args:
        rank: its number.
        regions, groups: where its blocks lie; see `kvstow.client.Session.attach`.
        target: where the daemon is.
    """

    def __init__(
        self,
        rank: int,
        regions: Sequence[cache_pb2.Region],
        groups: Sequence[cache_pb2.GroupMemory],
        target: str,
    ) -> None:
        self._number = rank
        self._attachment = Attachment(RemoteRank(rank, regions, groups, target))
        self._view: BoardView | None = None

    def prepare(self, step: Step) -> None:
        """Before the step writes anything: wait for the copies that read what it writes.

        However long they take: a store whose blocks changed under it would leave wrong bytes
        behind. A daemon that was killed makes none any more; one that is stopped still has them.
        """
        self._attachment.follow(step.ticket)
        for number in step.fences:
            while not self._board(step.board).wait(number, _WARN_S):
                _log.warning(
                    "waiting for kvstowd to finish copying blocks that are needed; "
                    "if it is stopped, let it go on or kill it"
                )

    def report(self, step: Step) -> Report:
        """What the scheduler half is told when a step has been done."""
        ticket = self._attachment.attached
        return Report(step.number, {} if ticket is None else {self._number: ticket})

    def close(self) -> None:
        """The memory stays attached until the session ends."""
        self._attachment.close()

    def _board(self, path: str) -> BoardView:
        if self._view is None or self._view.path != path:
            self._view = BoardView(path)
        return self._view
