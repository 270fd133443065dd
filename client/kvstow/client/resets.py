"""Resets by this client, which hold even when the daemon does not answer.

A reset begins with an era of the session's own: from then on nothing older is found or stored here,
whatever the daemon has done. If its outcome stays unknown it is owed (see `standing`), and made
before anything is asked again (see `upkeep`).
"""

from dataclasses import dataclass
from functools import partial

from kvstow.v1 import cache_pb2

from .calls import Calls, PendingCall
from .errors import KvstowError, TimedOut, Unreachable
from .standing import Standing, Ticket


@dataclass(frozen=True, slots=True)
class ResetResult:
    """What a reset did.

    Attributes:
        dropped_count: blocks that were READY and are gone.
        ended_count: queued transfers that ended without a copy.
        abandoned_stores, abandoned_loads: transfers of older generations whose copy still runs.
        drained: no copy of an older generation is left; if false, ResetDrained follows.
    """

    dropped_count: int
    ended_count: int
    abandoned_stores: int
    abandoned_loads: int
    drained: bool


class Resets:
    """The resets of one session."""

    def __init__(self, calls: Calls, standing: Standing, limit_s: float) -> None:
        self._calls = calls
        self._standing = standing
        self._limit_s = limit_s

    def make(self, wait_s: float) -> ResetResult:
        """Reset the space.

        Raises:
            Unreachable: it is not known whether the daemon did it; it is owed.
        """
        era = self._standing.begin_reset()
        ticket = self._standing.ticket
        if ticket is None:
            raise Unreachable("the session is not open; the reset is owed")
        request = cache_pb2.ResetRequest(session_id=ticket.session_id, wait_s=wait_s)
        call: PendingCall[cache_pb2.ResetResponse]
        call = self._calls.begin(self._calls.cache.Reset, request, ticket.boot_id)
        try:
            reply = self._calls.answer(call, wait_s + self._limit_s, ticket.boot_id)
        except (TimedOut, KeyboardInterrupt):
            call.add_done_callback(partial(self._end_late, era, ticket))
            raise
        except KvstowError as error:
            self._standing.lose(ticket)
            raise Unreachable(f"the reset is owed: {error}") from error
        result = reply.result
        self._standing.end_reset(era, result.generation)
        return ResetResult(
            dropped_count=result.dropped_count,
            ended_count=result.ended_count,
            abandoned_stores=result.abandoned_stores,
            abandoned_loads=result.abandoned_loads,
            drained=result.drained,
        )

    def _end_late(
        self, era: int, ticket: Ticket, call: PendingCall[cache_pb2.ResetResponse]
    ) -> None:
        try:
            reply = self._calls.answer(call, 0, ticket.boot_id)
        except KvstowError:
            self._standing.lose(ticket)
        else:
            self._standing.end_reset(era, reply.result.generation)
