"""The memory of an engine's ranks: what is attached, and attached again when a session was reopened.

A rank lives either in the process that opened the session (`Session.attach`) or in another one
(`RemoteRank`), which is told the session's ticket and attaches to it by itself.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kvstow.v1 import cache_pb2, identity_pb2

from .calls import Calls
from .errors import DEVICE_BUSY, TRANSIENT, KvstowError, Refused, Unreachable
from .process import this_process
from .standing import Standing, Ticket

_BUSY_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Where one rank's blocks lie.

    Attributes:
        regions: the allocations, each once.
        groups: for each group of the layout, where its blocks lie in the regions.
        fences: the rank's ring; none if its memory is not on a GPU, or if transfers never name one.
    """

    rank: int
    regions: Sequence[cache_pb2.Region]
    groups: Sequence[cache_pb2.GroupMemory]
    fences: Sequence[cache_pb2.CudaEvent] = ()
    process: identity_pb2.Process = field(default_factory=this_process)

    def attach(self, calls: Calls, ticket: Ticket, limit_s: float) -> None:
        """Ask the daemon to map it; while copies of an earlier session still use it, ask again within `limit_s`.

        Raises:
            Refused, Unreachable: see `Calls.ask`.
        """
        request = cache_pb2.AttachMemoryRequest(
            session_id=ticket.session_id,
            rank=self.rank,
            process=self.process,
            regions=self.regions,
            groups=self.groups,
            fences=self.fences,
        )
        until = time.monotonic() + limit_s
        while True:
            try:
                calls.ask(calls.cache.AttachMemory, request, limit_s, ticket.boot_id)
            except Refused as refused:
                if refused.reason != DEVICE_BUSY or time.monotonic() + _BUSY_PAUSE_S > until:
                    raise
                time.sleep(_BUSY_PAUSE_S)
            else:
                return

    def detach(self, calls: Calls, ticket: Ticket, wait_s: float, limit_s: float) -> bool:
        """Ask the daemon to unmap it; True if no copy touches it any more.

        Raises:
            Refused, Unreachable: see `Calls.ask`.
        """
        request = cache_pb2.DetachMemoryRequest(
            session_id=ticket.session_id, rank=self.rank, wait_s=wait_s
        )
        reply: cache_pb2.DetachMemoryResponse = calls.ask(
            calls.cache.DetachMemory, request, wait_s + limit_s, ticket.boot_id
        )
        return reply.drained


class Ranks:
    """The ranks that are attached through a session.

    Args:
        limit_s: how long a call may take.

    Attributes:
        lock: held while a rank is attached or detached, and while all are attached to a session
            that was just opened, so that none is forgotten and none is attached twice.
    """

    def __init__(self, calls: Calls, standing: Standing, limit_s: float) -> None:
        self._calls = calls
        self._standing = standing
        self._limit_s = limit_s
        self._attached: dict[int, RankMemory] = {}
        self.lock = threading.Lock()

    def attach(self, memory: RankMemory) -> None:
        """Attach a rank; if the session is not open or about to end, when it is open (again).

        Raises:
            ValueError: the rank is attached.
            Refused: the daemon said no to this memory, and will not be asked again.
            Unreachable: nobody knows; the session is opened again, and the rank attached to it.
        """
        with self.lock:
            if memory.rank in self._attached:
                raise ValueError(f"rank {memory.rank} is attached; detach it first")
            self._attached[memory.rank] = memory
            ticket = self._standing.ticket
            if ticket is None:
                return
            try:
                memory.attach(self._calls, ticket, self._limit_s)
            except Refused as refused:
                if refused.reason not in TRANSIENT:
                    del self._attached[memory.rank]
                    raise
                self._standing.believe(ticket, refused)
            except Unreachable:
                self._standing.lose(ticket)
                raise

    def attach_all(self, ticket: Ticket) -> None:
        """Attach every rank to a session that was just opened. Needs the lock.

        Raises:
            Refused, Unreachable: see `Calls.ask`.
        """
        for memory in self._attached.values():
            memory.attach(self._calls, ticket, self._limit_s)

    def detach(self, rank: int, wait_s: float) -> bool:
        """Detach a rank for good; True if no copy touches its memory any more.

        Raises:
            Refused, Unreachable: see `Calls.ask`; the rank is attached still.
        """
        with self.lock:
            memory, ticket = self._attached.get(rank), self._standing.ticket
            if memory is None:
                return True
            if ticket is None:  # a lost session's copies have ended when its transfers have
                drained = not self._standing.unfinished_count
            else:
                drained = memory.detach(self._calls, ticket, wait_s, self._limit_s)
            if drained:
                del self._attached[rank]
            return drained

    def detach_all(self, until: float) -> None:
        """Detach every rank, waiting for copies until a time on the monotonic clock, or until the daemon does not answer.

        It is gone then, or will see that this process is.
        """
        with suppress(KvstowError):
            for rank in list(self._attached):
                self.detach(rank, max(0.0, until - time.monotonic()))
