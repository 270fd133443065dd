"""Asks what is stored, and answers a miss whenever the daemon does not.

A lookup whose answer comes too late may have taken a lease; its call goes on, and the lease is
released when the answer comes. May be used from any thread.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial

from kvstow.v1 import cache_pb2

from .calls import Calls, PendingCall
from .counters import Tally
from .errors import (
    STALE_GENERATION,
    TRANSIENT,
    Refused,
    Restarted,
    TimedOut,
    Unreachable,
)
from .hits import GroupHits, Hits
from .standing import Permit, Standing, Ticket


class Hold(Enum):
    """Which of the READY keys a lookup puts under a lease.

    NONE: none. PREFIX: the leading ones of each group. READY: all of them, also behind a gap, for
    groups that need only the end of a prefix.
    """

    NONE = cache_pb2.HOLD_NONE
    PREFIX = cache_pb2.HOLD_PREFIX
    READY = cache_pb2.HOLD_READY


class Lookups:
    """The lookups of one session."""

    def __init__(self, calls: Calls, standing: Standing, tally: Tally, limit_s: float) -> None:
        self._calls = calls
        self._standing = standing
        self._tally = tally
        self._limit_s = limit_s

    def ask(
        self,
        message: cache_pb2.LookupRequest,
        keys: Mapping[int, Sequence[bytes]],
        budget_s: float,
    ) -> Hits:
        """Ask the daemon, if it may be asked.

        Args:
            message: what to look up, without session and generation.
            keys: the same keys, to count them.

        Raises:
            Refused: the request is wrong, or the session has too many leases.
        """
        permit = self._standing.permit()
        if permit is None:
            return self._miss(message, keys, self._standing.why_not())
        if not self._calls.admits():
            return self._miss(message, keys, "not answering")
        message.session_id = permit.ticket.session_id
        message.generation = permit.generation.number
        try:
            reply = self._call(message, permit.ticket, budget_s)
        except Refused as refused:
            self._standing.believe(permit.ticket, refused)
            if refused.reason not in TRANSIENT and refused.reason != STALE_GENERATION:
                self._tally.add_failure(refused.reason)
                raise
            return self._miss(message, keys, refused.reason)
        except TimedOut:
            return self._miss(message, keys, "timed out")
        except Restarted:
            self._standing.lose(permit.ticket)
            return self._miss(message, keys, "restarted")
        except Unreachable:
            return self._miss(message, keys, "unreachable")
        return self._take(message, keys, permit, reply)

    def miss(self, request: str, keys: Mapping[int, Sequence[bytes]], reason: str) -> Hits:
        """No hits, which no counter hears of."""
        groups = {group: GroupHits() for group in keys}
        return Hits(request, self._standing.generation, groups, missed_because=reason)

    def release(self, requests: Sequence[str]) -> None:
        """End the leases of these requests, without waiting for it."""
        ticket = self._standing.ticket
        leases = self._standing.take_leases(requests)
        if leases and ticket is not None:
            self._release(ticket, leases)

    def _call(
        self, message: cache_pb2.LookupRequest, ticket: Ticket, budget_s: float
    ) -> cache_pb2.LookupResponse:
        call: PendingCall[cache_pb2.LookupResponse]
        call = self._calls.begin(self._calls.cache.Lookup, message, ticket.boot_id)
        try:
            return self._calls.answer(call, budget_s, ticket.boot_id)
        except (TimedOut, KeyboardInterrupt):
            call.add_done_callback(partial(self._release_late, ticket))
            raise

    def _take(
        self,
        message: cache_pb2.LookupRequest,
        keys: Mapping[int, Sequence[bytes]],
        permit: Permit,
        reply: cache_pb2.LookupResponse,
    ) -> Hits:
        holds = message.hold != cache_pb2.HOLD_NONE
        if holds and not self._standing.keep_lease(permit, message.request, reply.lease_id):
            if reply.lease_id:
                self._release(permit.ticket, [reply.lease_id])
            return self._miss(message, keys, "reset meanwhile")
        found = {
            asked.group: GroupHits(hits.hit_count, hits.pending_count, hits.states)
            for asked, hits in zip(message.groups, reply.groups, strict=True)
        }
        hit = sum(group.hit_count for group in found.values())
        pending = sum(group.pending_count for group in found.values())
        missed = _key_count(keys) - hit - pending
        self._tally.add(lookups=1, hit_count=hit, pending_count=pending, missed_count=missed)
        return Hits(message.request, permit.generation, found, reply.lease_id)

    def _miss(
        self,
        message: cache_pb2.LookupRequest,
        keys: Mapping[int, Sequence[bytes]],
        reason: str,
    ) -> Hits:
        self._tally.add(lookups=1, missed_count=_key_count(keys))
        self._tally.add_failure(reason)
        return self.miss(message.request, keys, reason)

    def _release_late(self, ticket: Ticket, call: PendingCall[cache_pb2.LookupResponse]) -> None:
        try:
            reply = self._calls.answer(call, 0, ticket.boot_id)
        except (Refused, Unreachable):
            return
        if reply.lease_id:
            self._release(ticket, [reply.lease_id])

    def _release(self, ticket: Ticket, leases: Sequence[int]) -> None:
        request = cache_pb2.ReleaseRequest(session_id=ticket.session_id, lease_ids=leases)
        self._calls.tell(self._calls.cache.Release, request, ticket.boot_id, self._limit_s)


def _key_count(keys: Mapping[int, Sequence[bytes]]) -> int:
    return sum(map(len, keys.values()))
