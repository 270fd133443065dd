"""The block tables of a simulated engine: how requests get blocks, share them by their names, and give them back."""

from engines.pool import NULL, Pool
from engines.request import Request
from kvstow.client import GroupHits
from kvstow.client.engines.offload.shape import Shape


class Tables:
    """The tables of all requests, which keep them.

    Args:
        defers: blocks that a step under way may write are given back when it has ended.

    Attributes:
        shape, pool: of the blocks.
        handed_out: what each request was given in the step that is being planned.
    """

    def __init__(self, shape: Shape, pool: Pool, defers: bool) -> None:
        self._defers = defers
        self.shape = shape
        self.pool = pool
        self._last_step = 0
        self._unfreed: list[tuple[int, list[int]]] = []
        self.handed_out: dict[Request, list[int]] = {}

    def plan(self) -> list[int]:
        """A step is planned with what was handed out; returns that."""
        self._last_step += 1
        given, self.handed_out = self.handed_out, {}
        return [block for blocks in given.values() for block in blocks]

    def missing_count(self, request: Request) -> int:
        """What a request that holds blocks needs beside them to come to its end."""
        if not request.tables:
            return 0
        wanted = sum(-(-(request.goal + 1) // shape.block_tokens) for shape in self.shape.groups)
        return wanted - sum(map(len, request.tables))

    def cached_tokens(self, request: Request) -> int:
        """How many of its tokens are there by the names of blocks."""
        if request.skip_reading_prefix_cache:
            return 0
        end = request.num_tokens - 1
        end -= end % self.shape.align_tokens
        hits = {}
        for group, shape in enumerate(self.shape.groups):
            keys = self.shape.keys(request.block_hashes, group, 0, end // shape.block_tokens)
            states = "".join("R" if self.pool.cached((group, key)) else "." for key in keys)
            hits[group] = GroupHits(len(states) - len(states.lstrip("R")), 0, states)
        return self.shape.reach(0, end, hits)

    def take_cached(self, request: Request, tokens: int) -> None:
        """Share the blocks of so many tokens."""
        request.tables = []
        for group, shape in enumerate(self.shape.groups):
            table = []
            first = shape.first_needed(tokens)
            keys = self.shape.keys(request.block_hashes, group, 0, tokens // shape.block_tokens)
            for position, key in enumerate(keys):
                block = self.pool.cached((group, key)) if position >= first else NULL
                assert block is not None
                if block != NULL:
                    self.pool.take_cached(block)
                table.append(block)
            request.tables.append(table)

    def extend(self, request: Request, count: int) -> bool:
        """Give a request blocks for some more tokens, and take those that left the window."""
        computed = request.num_computed_tokens
        processed = computed - request.num_in_flight_tokens
        for table, shape in zip(request.tables, self.shape.groups, strict=True):
            for position in range(min(shape.first_needed(processed), len(table))):
                self.pool.give_back([table[position]])
                table[position] = NULL
        new = self.grow(request, computed + count, computed)
        if new is None:
            return False
        self.handed_out.setdefault(request, []).extend(new)
        for group, shape in enumerate(self.shape.groups):
            self.cache(request, group, (computed + count) // shape.block_tokens)
        return True

    def grow(self, request: Request, tokens: int, window_at: int) -> list[int] | None:
        """Blocks for all tokens that are in a window still; None if there are not enough."""
        wanted = []
        for table, shape in zip(request.tables, self.shape.groups, strict=True):
            stop = -(-tokens // shape.block_tokens)
            first = shape.first_needed(window_at)
            wanted += [(table, position >= first) for position in range(len(table), stop)]
        if sum(needed for _, needed in wanted) > len(self.pool.free):
            return None
        new = []
        for table, needed in wanted:
            block = self.pool.take_new() if needed else NULL
            table.append(block)
            if needed:
                new.append(block)
        return new

    def cache(self, request: Request, group: int, stop: int) -> None:
        """Name its blocks up to a position."""
        keys = self.shape.keys(
            request.block_hashes, group, 0, min(stop, len(request.block_hashes))
        )
        for key, block in zip(keys, request.tables[group], strict=False):
            if block != NULL:
                self.pool.cache((group, key), block)

    def give_back(self, request: Request) -> None:
        """Give its blocks back, if need be when the steps under way that may write them have ended."""
        self.handed_out.pop(request, None)
        for table in request.tables:
            if self._defers and request.num_in_flight_tokens:
                self._unfreed.append((self._last_step, table))
            else:
                self.pool.give_back(table)
        request.tables = []

    def end_step(self, step: int) -> None:
        """A step has ended."""
        for last_step, table in list(self._unfreed):
            if last_step <= step:
                self._unfreed.remove((last_step, table))
                self.pool.give_back(table)

    def trim(self, request: Request, group: int) -> None:
        """Blocks whose load failed are handed out anew when they are computed."""
        keep = request.num_computed_tokens // self.shape.groups[group].block_tokens
        self.pool.give_back(request.tables[group][keep:])
        del request.tables[group][keep:]

    def valid_tokens(self, request: Request, failed: set[int]) -> int:
        """vLLM keeps what lies before the first failed block, with several groups nothing."""
        if len(self.shape.groups) > 1:
            return 0
        table = request.tables[0]
        first = next(position for position, block in enumerate(table) if block in failed)
        return first * self.shape.groups[0].block_tokens
