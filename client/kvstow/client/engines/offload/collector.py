"""Looks through the engine's requests for blocks that are worth offering, not many with each step.

Blocks are looked at once, when they were computed; once more when their request ends, because the
daemon may have evicted some; and again from the beginning after everything stored was lost. What a
step has no time for waits for the next ones: however much there is to look at, a step of the engine is not
held up for long. Only the scheduler thread uses this.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from .engine import Engine
from .later import Offer
from .requests import Tracked
from .stores import Stores

LOOK_BLOCKS = 2048
"""Blocks that are looked at in one step."""


class Collector:
    """The search for what to store.

    Args:
        engine: whose blocks they are.
        stores: where offers go.
    """

    def __init__(self, engine: Engine, stores: Stores) -> None:
        self._engine = engine
        self._stores = stores
        self._farewells: deque[Iterator[Offer]] = deque()
        self._left = LOOK_BLOCKS

    @property
    def is_busy(self) -> bool:
        """Whether requests that are over still have blocks to offer."""
        return bool(self._farewells)

    def begin_step(self) -> None:
        """A step of the engine begins."""
        self._left = LOOK_BLOCKS

    def collect(self, requests: Iterable[Tracked]) -> None:
        """Take what is new into the next transfer, then what requests that are over have left, then what is due again."""
        if self._stores.are_welcome():
            if self._engine.evictable is None:
                self._scan_all(requests)
            else:
                offers = self._engine.evictable()
                self._stores.collect(Offer(*offer, declined=set()) for offer in offers)
            self._left -= self._stores.collect_due(self._left)
        self._take_leave()

    def finish(self, tracked: Tracked, tables: Sequence[Sequence[int]]) -> None:
        """A request is over; offer all its blocks once more."""
        if self._engine.evictable is not None or not self._stores.are_welcome(last_chance=True):
            return
        for group, table in enumerate(tables):
            ready = min(self._ready(tracked, group), len(table))
            if ready:
                self._farewells.append(self._offers(tracked, group, 0, table[:ready]))
        self._take_leave()

    def _take_leave(self) -> None:
        while self._farewells and self._left > 0:
            offers = list(islice(self._farewells[0], self._left))
            if not offers:
                self._farewells.popleft()
            self._left -= len(offers)
            self._stores.collect(offers, again=True)

    def _scan_all(self, requests: Iterable[Tracked]) -> None:
        for tracked in requests:
            for group in range(len(self._engine.shape.groups)):
                self._scan(tracked, group)

    def _scan(self, tracked: Tracked, group: int) -> None:
        if tracked.scan != self._stores.scan:
            tracked.scan = self._stores.scan
            tracked.scanned.clear()
        start = tracked.scanned.get(group, 0)
        stop = min(self._ready(tracked, group), start + self._left)
        if start < stop:
            table = self._engine.table(tracked.request.request_id, group, start, stop)
            self._stores.collect(self._offers(tracked, group, start, table))
            tracked.scanned[group] = start + len(table)
            self._left -= len(table)

    def _ready(self, tracked: Tracked, group: int) -> int:
        """How many blocks of the request are full, computed and have a key."""
        shape, request = self._engine.shape, tracked.request
        tokens = tracked.computed_tokens
        if self._engine.prompt_only:
            tokens = min(tokens, request.num_prompt_tokens)
        tokens = min(tokens, len(request.block_hashes) * shape.hash_tokens)
        return tokens // shape.groups[group].block_tokens

    def _offers(
        self, tracked: Tracked, group: int, start: int, table: Sequence[int]
    ) -> Iterator[Offer]:
        shape = self._engine.shape
        keys = shape.keys(tracked.request.block_hashes, group, start, start + len(table))
        for key, block in zip(keys, table, strict=True):
            if block != shape.null_block:
                yield Offer(group, key, block, tracked.declined)
