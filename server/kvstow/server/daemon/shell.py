"""The daemon: every request is decided under the lock, copied without it, and settled under it again.

Not decided here: anything about blocks (the ledger) or bytes (the device). Every public method may be called from any
thread, unless it says otherwise, and may raise a `Refusal`, after which nothing has changed; which ones, the ledger's
method of the same name says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from kvstow.server.core.ledger import Ledger
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.types import (
    GroupBlocks,
    GroupKeys,
    Hold,
    LeaseId,
    LookupResult,
    ResetResult,
    SessionId,
    SpaceId,
    TransferId,
    TransferPlan,
)

from .flights import Flight
from .life import Life
from .misses import ExplainedMiss, explained

_ADMINISTRATOR = "an administrator"
_log = structlog.get_logger("kvstow.daemon")


class Daemon(Life):
    """What the rpc layer calls; see `Life` for the arguments."""

    def lookup(
        self,
        session: SessionId,
        generation: int,
        groups: Sequence[GroupKeys],
        *,
        request: str,
        hold: Hold,
        ttl_s: float,
        touch: bool,
        want_states: bool,
    ) -> LookupResult:
        """Count leading READY keys, and hold them on request."""
        unwell = self._parts.devices.unwell
        with self._guard as ledger:
            self._require_ready()
            blind = bool(unwell) and self._sessions.attachments.is_on(session, unwell)
            options = LookupOptions(request, hold, ttl_s, touch, want_states, blind)
            now = self._clock()
            result = ledger.lookup(session, generation, groups, options, now=now)
            space, _ = ledger.space_of(session)
            self._parts.misses.note(space, groups, result, now, ledger.space_ids)
        return result

    def misses(self, space: SpaceId) -> list[ExplainedMiss]:
        """The keys at which the latest lookups of a space ended, newest first; answered in every state."""
        with self._guard as ledger:
            ledger.identity_of(space)
            found = self._parts.misses.latest(space)
            now = self._clock()
            recalled = {
                group: ledger.recall(
                    space, group, [miss.key for miss in found if miss.group == group], now=now
                )
                for group in {miss.group for miss in found}
            }
        return explained(found, recalled)

    def store(
        self,
        session: SessionId,
        generation: int,
        transfer: TransferId,
        groups: Sequence[GroupBlocks],
        deadline_s: float,
        fence: int | None = None,
    ) -> TransferPlan:
        """Begin a store, and queue its copies; each rank's waits for this fence of its ring."""
        with self._guard as ledger:
            self._require_ready()
            self._sessions.attachments.check_fence(session, fence)
            plan = ledger.begin_store(
                session, transfer, generation, groups, deadline_s=deadline_s, now=self._clock()
            )
            flight = self._take_off(plan, fence)
        if flight is not None:
            flight.launch()
        return plan

    def load(
        self,
        session: SessionId,
        generation: int,
        transfer: TransferId,
        groups: Sequence[GroupBlocks],
        lease: LeaseId | None,
        deadline_s: float,
        fence: int | None = None,
    ) -> TransferPlan:
        """Begin a load, and queue its copies; each rank's waits for this fence of its ring."""
        with self._guard as ledger:
            self._require_ready()
            self._sessions.attachments.check_fence(session, fence)
            plan = ledger.begin_load(
                session,
                transfer,
                generation,
                groups,
                lease=lease,
                deadline_s=deadline_s,
                now=self._clock(),
            )
            flight = self._take_off(plan, fence)
        if flight is not None:
            flight.launch()
        return plan

    def release(self, session: SessionId, leases: Sequence[LeaseId]) -> int:
        """End leases; returns how many lived."""
        with self._guard as ledger:
            self._require_started()
            return ledger.release(session, leases, now=self._clock())

    def cancel(self, session: SessionId, transfers: Sequence[TransferId]) -> tuple[int, int]:
        """Abandon transfers; returns how many ended at once and how many still run."""
        with self._guard as ledger:
            self._require_started()
            return ledger.cancel(session, transfers, now=self._clock())

    def reset(self, session: SessionId, wait_s: float) -> ResetResult:
        """Reset the session's space, then wait up to `wait_s` seconds for what it has abandoned."""
        with self._guard as ledger:
            self._require_started()
            space, _ = ledger.space_of(session)
            result = ledger.reset(space, now=self._clock())
        return self._drained({space: result}, wait_s, f"session {session}")[space]

    def reset_space(self, space: SpaceId, wait_s: float) -> ResetResult:
        """Reset one space, then wait as `reset` does."""
        with self._guard as ledger:
            self._require_started()
            result = ledger.reset(space, now=self._clock())
        return self._drained({space: result}, wait_s, _ADMINISTRATOR)[space]

    def reset_all(self, wait_s: float) -> Mapping[SpaceId, ResetResult]:
        """Reset all spaces in one step, then wait as `reset` does."""
        with self._guard as ledger:
            self._require_started()
            results = ledger.reset_all(now=self._clock())
        return self._drained(results, wait_s, _ADMINISTRATOR)

    def drop_space(self, space: SpaceId) -> int:
        """Drop a space without sessions; returns how many blocks it had."""
        with self._guard as ledger:
            self._require_started()
            dropped = ledger.drop_space(space, now=self._clock())
        self._parts.timer.wake()
        _log.info("space dropped", space=space, blocks=dropped)
        return dropped

    def _take_off(self, plan: TransferPlan, fence: int | None) -> Flight | None:
        """Under the lock: whoever detaches or ends the session from now on finds the copies counted."""
        if plan.repeated or not plan.copies:
            return None
        layout = self._sessions.identity(plan.session).layout
        attachments = self._sessions.attachments.of(plan.session)
        return self._flights.begin(plan, layout, attachments, fence)

    def _drained(
        self, results: Mapping[SpaceId, ResetResult], wait_s: float, by: str
    ) -> Mapping[SpaceId, ResetResult]:
        """Log who reset, and wait without the lock; the counts then say what is left."""
        self._parts.timer.wake()  # dropped slots are taken back little by little
        for space, result in results.items():
            _log.info(
                "space reset",
                space=space,
                by=by,
                generation=result.generation,
                dropped=result.dropped_count,
                abandoned=result.abandoned_stores + result.abandoned_loads,
            )
        if wait_s <= 0 or all(result.drained for result in results.values()):
            return results
        self._guard.wait_until(
            lambda ledger: all(
                ledger.is_drained(space, result.generation) for space, result in results.items()
            ),
            wait_s,
        )
        with self._guard as ledger:
            return {space: _with_left(ledger, space, result) for space, result in results.items()}


def _with_left(ledger: Ledger, space: SpaceId, result: ResetResult) -> ResetResult:
    stores, loads = ledger.running_before(space, result.generation)
    return replace(result, abandoned_stores=stores, abandoned_loads=loads)
