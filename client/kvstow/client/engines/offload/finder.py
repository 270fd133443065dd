"""Looks up what the daemon has for a request, and keeps the promise until it is loaded or released.

Never blocks longer than the session's budget. A promise is kept for as long as the engine has not
made up its mind: it asks again with every step in which it cannot admit the request. Only the
scheduler thread uses this.
"""

import logging
from collections.abc import Callable

from kvstow.client.errors import Refused
from kvstow.client.hits import Hits
from kvstow.client.lookups import Hold

from .loads import Loads
from .presence import Presence
from .requests import Promise, Tracked
from .session import CacheSession
from .shape import Shape

MAX_KEYS = 8192
"""Keys in one call, over all groups; what the daemon takes unless it was told otherwise."""

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
        shape: Shape,
        presence: Presence,
        loads: Loads,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._shape = shape
        self._presence = presence
        self._loads = loads
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
            promise = tracked.promise = self._look_up(tracked, start, end)
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
            tracked.promise = None
            self._session.release(tracked.request.request_id)

    def _last_boundary(self, tracked: Tracked, start: int) -> int:
        align = self._shape.align_tokens
        if start % align:
            return start
        hashed = len(tracked.request.block_hashes) * self._shape.hash_tokens
        end = min(tracked.request.num_tokens - 1, hashed, start + self._most_tokens())
        return end - end % align

    def _most_tokens(self) -> int:
        groups = self._shape.groups
        return MAX_KEYS // len(groups) * min(group.block_tokens for group in groups)

    def _is_good(self, promise: Promise, start: int) -> bool:
        life_s = PROMISE_S if promise.end > start else MISS_S
        return (
            promise.start == start
            and promise.hits.generation == self._session.generation
            and self._clock() - promise.at < life_s
        )

    def _range(self, group: int, start: int, end: int) -> tuple[int, int]:
        block_tokens = self._shape.groups[group].block_tokens
        return start // block_tokens, end // block_tokens

    def _look_up(self, tracked: Tracked, start: int, end: int) -> Promise:
        request, windows = tracked.request, self._shape.has_windows
        keys = {
            group: self._shape.keys(request.block_hashes, group, *self._range(group, start, end))
            for group in range(len(self._shape.groups))
        }
        hold = Hold.READY if windows else Hold.PREFIX
        try:
            hits = self._session.lookup(request.request_id, keys, hold=hold, want_states=windows)
        except Refused as refused:
            _log.warning("a lookup was refused: %s %s", refused, refused.next_step)
            hits = Hits(request.request_id, self._session.generation, {}, 0, refused.reason)
        reached = start if hits.missed_because else self._shape.reach(start, end, hits.groups)
        if reached == start:
            self._session.release(request.request_id)
        return Promise(start, reached, hits, self._clock())
