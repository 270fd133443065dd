"""Looks through the engine's requests for blocks that are worth offering, not many with each step.

Blocks are looked at once, when they were computed; once more when their request ends, because the
daemon may have evicted some; and again from the beginning after everything stored was lost. What a
step has no time for waits for the next ones: however much there is to look at, a step of the engine is not
held up for long. Only the scheduler thread uses this.

The daemon orders what one call names: of a prefix its end is evicted before its beginning. Of what
several calls name the last call's stays longest. So when a request ends its prefix is named once what
it has stored is there, in pieces of one call each, from the end to the beginning, and a piece is
collected only if it fits into the next call as a whole. In between, the beginning of what a running
request has stored may be evicted before the rest; then it is stored again when the request ends.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from .engine import Engine
from .later import Offer
from .requests import Tracked
from .stores import Stores

LOOK_BLOCKS = 2048
"""Blocks that are looked at in one step."""

PATIENCE_S = 1.0
"""How long an engine that has nothing else to do is kept busy until copies have ended."""

MOST_PIECES = 4096
"""Pieces that wait while a daemon does not end its copies; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Blocks of a request that is over, one behind the other in one group.

    Attributes:
        begin: the token that the first of them begins with.
        after: the last store that may hold some of them; they are named when it has ended.
        count: how many there are.
        offers: the blocks, without those that hold nothing.
    """

    begin: int
    after: int
    count: int
    offers: Iterator[Offer]


class Collector:
    """The search for what to store.

    Args:
        engine: whose blocks they are.
        stores: where offers go.
        clock: seconds, rising.
    """

    def __init__(self, engine: Engine, stores: Stores, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._stores = stores
        self._clock = clock
        self._finished_at = 0.0
        self._farewells: deque[Piece] = deque(maxlen=MOST_PIECES)
        self._left = LOOK_BLOCKS

    @property
    def is_busy(self) -> bool:
        """Whether requests that are over have blocks to offer, now or very soon."""
        is_soon = self._clock() - self._finished_at < PATIENCE_S
        return bool(self._farewells) and (is_soon or self._is_time)

    @property
    def _is_time(self) -> bool:
        return bool(self._farewells) and self._stores.have_ended(self._farewells[0].after)

    def begin_step(self) -> None:
        """A step of the engine begins."""
        self._left = LOOK_BLOCKS

    def collect(self, requests: Iterable[Tracked]) -> None:
        """Take what is new into the next transfer, then what requests that are over have left, then what is due again."""
        if self._stores.are_welcome():
            if self._engine.evictable is None:
                self._scan_all(requests)
            else:
                self._collect_evictable(self._engine.evictable())
            self._left -= self._stores.collect_due(self._left)
        self._take_leave()

    def finish(self, tracked: Tracked, tables: Sequence[Sequence[int]]) -> None:
        """A request is over; offer all its blocks once more."""
        if self._engine.evictable is not None or not self._stores.are_welcome(last_chance=True):
            return
        after = 0
        if self._stores.are_under_way:
            for group, table in enumerate(tables):
                self._collect_rest(tracked, group, table)
            after = self._stores.next_number
        pieces = [
            piece
            for group, table in enumerate(tables)
            for piece in self._pieces(tracked, group, table, after)
        ]
        self._finished_at = self._clock()
        self._farewells.extend(sorted(pieces, key=lambda piece: piece.begin, reverse=True))
        self._take_leave()

    def _collect_rest(self, tracked: Tracked, group: int, table: Sequence[int]) -> None:
        """Offer at once what was not looked at yet: its blocks may soon be used again."""
        start = tracked.scanned.get(group, 0)
        stop = min(self._ready(tracked, group), len(table), start + self._left)
        if start < stop:
            self._left -= stop - start
            self._stores.collect(self._offers(tracked, group, start, table[start:stop]))

    def _pieces(
        self, tracked: Tracked, group: int, table: Sequence[int], after: int
    ) -> Iterator[Piece]:
        ready = min(self._ready(tracked, group), len(table))
        block_tokens = self._engine.shape.groups[group].block_tokens
        size = min(self._stores.most_keys, LOOK_BLOCKS)
        for start in range(0, ready, size):
            blocks = table[start : min(start + size, ready)]
            offers = self._offers(tracked, group, start, blocks)
            yield Piece(start * block_tokens, after, len(blocks), offers)

    def _take_leave(self) -> None:
        while self._is_time and self._farewells[0].count <= self._left:
            room = self._stores.most_keys - self._stores.batch_count
            if self._farewells[0].count > room and self._stores.batch_count:
                break
            piece = self._farewells.popleft()
            self._left -= piece.count
            self._stores.collect(piece.offers, again=True)

    def _collect_evictable(self, evictable: Iterable[tuple[int, bytes, int]]) -> None:
        """The engine evicts the end of a prefix first, too; what it evicts first is sent first."""
        offers = [Offer(*offer, declined=set()) for offer in evictable]
        size = self._stores.most_keys
        for start in range(0, len(offers), size):
            self._stores.collect(reversed(offers[start : start + size]))

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
        """Keeps of the request its hashes alone: a piece may wait long, and requests hold prompts and images."""
        return self._named(tracked.request.block_hashes, tracked.declined, group, start, table)

    def _named(
        self,
        hashes: Sequence[bytes],
        declined: set[bytes],
        group: int,
        start: int,
        table: Sequence[int],
    ) -> Iterator[Offer]:
        shape = self._engine.shape
        keys = shape.keys(hashes, group, start, start + len(table))
        for key, block in zip(keys, table, strict=True):
            if block != shape.null_block:
                yield Offer(group, key, block, declined)
