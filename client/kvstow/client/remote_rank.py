"""A rank whose process is not the one that opened the session.

The process that opened it tells the others `Session.ticket`, with every step or whenever
`Callbacks.on_reopen` is called; they `follow` it. A ticket that did not change costs a comparison.
"""

from collections.abc import Sequence

from kvstow.v1 import cache_pb2

from .calls import Calls
from .closing import Closing
from .credentials import Credentials
from .errors import Refused, Unreachable
from .ranks import RankMemory
from .standing import Ticket
from .target import check_target, default_target

CONTROL_S = 5.0


class RemoteRank(Closing):
    """The memory of one rank in this process.

    Not for several threads at once.

    Args:
        rank: 0 to the layout's world size - 1.
        regions, groups, fences: as for `Session.attach`.
        target, credentials: as for `Client`.
        limit_s: how long a call may take.
    """

    def __init__(
        self,
        rank: int,
        regions: Sequence[cache_pb2.Region],
        groups: Sequence[cache_pb2.GroupMemory],
        target: str = "",
        limit_s: float = CONTROL_S,
        fences: Sequence[cache_pb2.CudaEvent] = (),
        credentials: Credentials | None = None,
    ) -> None:
        target = target or default_target()
        check_target(target)
        self._calls = Calls(target, credentials)
        self._memory = RankMemory(rank, regions, groups, fences)
        self._limit_s = limit_s
        self._attached: Ticket | None = None
        self._unanswered: Ticket | None = None

    def follow(self, ticket: Ticket | None) -> None:
        """Attach the memory to this opening of the session, unless it is already.

        Args:
            ticket: `Session.ticket`, as another process had it.

        Raises:
            Refused: the daemon cannot or does not map the memory. NO_SUCH_SESSION: the ticket is
                out of date; a newer one will come.
            Unreachable: the daemon did not answer; call again.
        """
        if ticket is None or ticket == self._attached:
            return
        try:
            self._memory.attach(self._calls, ticket, self._limit_s)
        except Refused as refused:
            # After a lost reply this says that the first attempt succeeded.
            if refused.reason != "RANK_ATTACHED" or self._unanswered != ticket:
                raise
        except Unreachable:
            self._unanswered = ticket
            raise
        self._attached, self._unanswered = ticket, None

    def detach(self, wait_s: float = 0.0) -> bool:
        """Take the memory back; True if no copy touches it any more. If not, call again.

        Raises:
            Refused, Unreachable: the memory may be in use still.
        """
        ticket = (
            self._unanswered or self._attached
        )  # the newer one, where the memory may be attached
        if ticket is None:
            return True
        drained = self._memory.detach(self._calls, ticket, wait_s, self._limit_s)
        if drained:
            self._attached = self._unanswered = None
        return drained

    def close(self) -> None:
        """End the connection; the memory stays attached until the session ends."""
        self._calls.close()
