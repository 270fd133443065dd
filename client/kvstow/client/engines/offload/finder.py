"""Looks up what the daemon has for a request, and keeps the promise until it is loaded or released.

Never blocks longer than the session's budget. A promise is kept for as long as the engine has not
made up its mind: it asks again with every step in which it cannot admit the request. Only the
scheduler thread uses this.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from kvstow.client.errors import Refused
from kvstow.client.hits import GroupHits
from kvstow.client.lookups import Hold

from .account import Account
from .engine import Engine
from .loads import Loads
from .presence import Presence
from .requests import Found, Promise, Tracked
from .session import CacheSession

MOST_LOOKUPS = 16
"""How many lookups are made for one request; each names as many keys as the daemon takes in one call."""

PROMISE_S = 2.0
"""How long a promise is believed without asking again; far below the life of a lease."""

MISS_S = 0.25
"""How long a miss is believed: a request that cannot be admitted comes back with every step."""

_log = logging.getLogger(__name__)


class Finder:
    """Lookups for one engine."""

    def __init__(
        self,
        session: CacheSession,
        engine: Engine,
        presence: Presence,
        loads: Loads,
        account: Account,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._shape = engine.shape
        self._budget_s = engine.lookup_budget_s
        self._presence = presence
        self._loads = loads
        self._account = account
        self._clock = clock

    def find(self, tracked: Tracked, start: int) -> int | None:
        """How many tokens behind `start` can be loaded; None: ask again with the next step.

        Never all tokens of the request: the last one must be computed to know what follows.
        """
        end = self._last_boundary(tracked, start)
        if tracked.bypassed or tracked.request.skip_reading_prefix_cache or end <= start:
            self.release(tracked)
            return 0
        promise = tracked.promise
        if promise is None or not self._is_good(promise, start):
            promise = self._look_up(tracked, start, end)
            if tracked.promise is not None:
                self._session.release(*set(tracked.promise.names).difference(promise.names))
            tracked.promise = promise
        if promise.end == start:
            return 0
        first = self._shape.keys(
            tracked.request.block_hashes, 0, *self._range(0, start, promise.end)
        )[0]
        if self._loads.are_loading(first):
            return None
        if not self._presence.all_attached():
            if self._presence.worth_waiting():
                return None
            self.release(tracked)
            return 0
        return promise.end - start

    def release(self, tracked: Tracked) -> None:
        """Give back what is held for the request, if anything."""
        if tracked.promise is not None:
            self._session.release(*tracked.promise.names)
            tracked.promise = None

    def _last_boundary(self, tracked: Tracked, start: int) -> int:
        align = self._shape.align_tokens
        if start % align:
            return start
        hashed = len(tracked.request.block_hashes) * self._shape.hash_tokens
        end = min(tracked.request.num_tokens - 1, hashed)
        return end - end % align

    def _is_good(self, promise: Promise, start: int) -> bool:
        life_s = PROMISE_S if promise.end > start else MISS_S
        return (
            promise.start == start
            and promise.generation == self._session.snapshot().generation
            and self._clock() - promise.at < life_s
        )

    def _range(self, group: int, start: int, end: int) -> tuple[int, int]:
        block_tokens = self._shape.groups[group].block_tokens
        return start // block_tokens, end // block_tokens

    def _look_up(self, tracked: Tracked, start: int, end: int) -> Promise:
        """Look up as many tokens as it takes, and give back what is found behind a gap."""
        now, at = self._session.snapshot(), self._clock()
        found: list[Found] = []
        reached = begun = start
        for begin, stop in self._spans(start, end, now.terms.max_keys):
            each = self._ask(tracked, len(found), begin, stop, at)
            if each is None:
                break
            found.append(each)
            if each.hits.generation != now.generation:
                break
            begun = stop
            if not self._goes_on(each):
                break
        else:
            self._account.add(cut_lookups=int(begun < end and now.terms.max_keys > 0))
        if found:
            reached = self._shape.reach(start, begun, self._joined(found))
        self._session.release(*(each.hits.request for each in found if each.start >= reached))
        used = [each for each in found if each.start < reached]
        return Promise(start, reached, used, now.generation, at)

    def _spans(self, start: int, end: int, max_keys: int) -> Iterator[tuple[int, int]]:
        """Pieces of a prompt with no more keys than one lookup may name; none if not even one fits."""
        align = self._shape.align_tokens
        align_keys = sum(align // group.block_tokens for group in self._shape.groups)
        step = max_keys // align_keys * align
        for _ in range(MOST_LOOKUPS if step else 0):
            if start < end:
                yield start, min(start + step, end)
            start += step

    def _ask(
        self, tracked: Tracked, number: int, start: int, end: int, since: float
    ) -> Found | None:
        """One lookup; a request's leases have different names. None if it was not answered."""
        request, windows = tracked.request, self._shape.has_windows
        name = f"{request.request_id} ({number + 1})" if number else request.request_id
        keys = {
            group: self._shape.keys(request.block_hashes, group, *self._range(group, start, end))
            for group in range(len(self._shape.groups))
        }
        left_s = self._budget_s - (self._clock() - since)
        try:
            hits = self._session.lookup(
                name,
                keys,
                hold=Hold.READY if windows else Hold.PREFIX,
                want_states=windows,
                budget_s=left_s,
            )
        except Refused as refused:
            _log.warning("a lookup was refused: %s %s", refused, refused.next_step)
            return None
        return None if hits.missed_because else Found(start, end, hits)

    def _goes_on(self, found: Found) -> bool:
        """Whether what lies behind can be of use."""
        return all(
            found.hits.groups[number].hit_count == (found.end - found.start) // group.block_tokens
            for number, group in enumerate(self._shape.groups)
            if not group.window_tokens
        )

    def _joined(self, found: Sequence[Found]) -> dict[int, GroupHits]:
        """What was found by several lookups as if it had been one."""
        return {
            number: GroupHits(
                hit_count=sum(each.hits.groups[number].hit_count for each in found),
                states="".join(each.hits.groups[number].states for each in found),
            )
            for number in range(len(self._shape.groups))
        }
