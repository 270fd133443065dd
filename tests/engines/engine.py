"""A simulated engine: schedules as vLLM does, and computes values instead of KV.

It drives a scheduler half as vLLM drives a connector and checks what the half promises: fences for exactly the stores
that read what a step overwrites, every load reported once and only for a request that waits for it, and KV that is
what the request's tokens make it.
"""

from collections.abc import Sequence

from engines.daemon import SimulatedSession
from engines.memory import Memory
from engines.pool import NULL, Pool
from engines.request import Request, Stage
from engines.workers import SimulatedWorkers
from kvstow.client import GroupHits, TransferState
from kvstow.client.engines.offload.engine import Engine, Written
from kvstow.client.engines.offload.scheduler import SchedulerHalf
from kvstow.client.engines.offload.shape import Shape
from kvstow.client.engines.offload.steps import EndedLoad, Report

STEP_TOKENS = 6
LAZY_BLOCKS = 4


class SimulatedEngine:
    """An engine with a connector's scheduler half; its workers are one.

    Attributes:
        unreported: requests whose load the engine waits for.
    """

    def __init__(self, shape: Shape, lazy: bool = False) -> None:
        self.shape = shape
        self.memory = Memory(shape.block_count)
        self.pool = Pool(shape.block_count)
        self.session = SimulatedSession(self.memory)
        self.now = 0.0
        self._workers = SimulatedWorkers(shape, self.memory, self.session)
        engine = Engine(
            shape,
            world_size=1,
            table=lambda name, group, start, stop: self.requests[name].tables[group][start:stop],
            evictable=(lambda: self.pool.evictable(LAZY_BLOCKS)) if lazy else None,
        )
        self.half = SchedulerHalf(self.session, self.session.heard, engine, lambda: self.now)
        self.requests: dict[str, Request] = {}
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self._handed_out: list[int] = []
        self.unreported: set[str] = set()

    def add(self, tokens: bytes, generate: int, skip: bool) -> Request:
        """A request arrives."""
        goal = len(tokens) + generate
        request = Request(str(len(self.requests) + 1), tokens, goal, skip, [], len(tokens))
        request.hash(self.shape.hash_tokens)
        self.requests[request.request_id] = request
        self.waiting.append(request)
        self.half.add(request)
        return request

    def step(self) -> None:
        """One step: schedule, compute, take the output."""
        self.now += 0.1
        self._handed_out = []
        scheduled = self._schedule()
        step = self.half.step(Written(handed_out=tuple(self._handed_out)))
        for request, count in scheduled:
            request.num_computed_tokens += count
            request.num_in_flight_tokens += count
        self._workers.work(step, self._handed_out, scheduled)
        if self.session.faults.quick:
            self.end_copies()
        self._take_output(step.ended, scheduled)
        self.half.hear(Report(self.session.attach()))

    def abort(self, request: Request) -> None:
        """Its user has gone."""
        (self.running if request in self.running else self.waiting).remove(request)
        self._finish(request)

    def preempt_all(self) -> None:
        """Take the blocks of all running requests."""
        while self.running:
            self._preempt(self.running.pop())

    def reset(self, running: bool) -> bool | None:
        """As vLLM's `reset_prefix_cache(reset_connector=True)`; None where that raises."""
        if running:
            self.preempt_all()
        local = self.pool.reset()
        if running and not local:
            return None
        return self.half.reset() and local

    def end_copies(self) -> None:
        """End all copies well."""
        for copy in list(self.session.copies):
            self.session.end(copy, TransferState.DONE)

    # Scheduling.

    def _schedule(self) -> list[tuple[Request, int]]:
        budget, scheduled = STEP_TOKENS, []
        for request in list(self.running):
            count = min(budget, request.num_tokens - request.num_computed_tokens)
            while request in self.running and not self._extend(request, count):
                self._preempt(self.running.pop())
            if request in self.running and count:
                scheduled.append((request, count))
                budget -= count
        scheduled = [(request, count) for request, count in scheduled if request in self.running]
        # Those that hold loaded blocks first, or they and the others would wait for each other.
        for request in sorted(self.waiting, key=lambda request: not request.num_computed_tokens):
            if request.stage is Stage.WAITING and budget > 0:
                admitted = self._admit(request, budget)
                if admitted is None:
                    break
                if admitted:
                    scheduled.append((request, admitted))
                    budget -= admitted
        return scheduled

    def _admit(self, request: Request, budget: int) -> int | None:
        """Give a waiting request blocks; returns how many tokens of it run, None if none fit."""
        found = request.num_computed_tokens
        if not found:
            found = self._cached_tokens(request)
            external = self.half.find(request, found)
            if external is None:
                return 0
            assert not (external and request.skip_reading_prefix_cache)
            self._take_cached(request, found)
            if external:
                return 0 if self._begin_load(request, found, external) else None
        count = min(budget, request.num_tokens - found)
        was_loaded = bool(request.num_computed_tokens)
        request.num_computed_tokens = found
        if not self._extend(request, count):
            if not was_loaded:
                request.num_computed_tokens = 0
                self._free(request)
            return None
        self.half.admit(request, request.tables, 0)
        self.waiting.remove(request)
        self.running.append(request)
        request.stage = Stage.RUNNING
        return count

    def _begin_load(self, request: Request, found: int, external: int) -> bool:
        end = found + external
        assert end < request.num_tokens, "the last token is never loaded"
        reserved = sum(map(self._missing_blocks, self.waiting))
        if reserved > len(self.pool.free) or self._grow_tables(request, end, end) is None:
            self._free(request)
            return False
        self.half.admit(request, request.tables, external)
        request.stage = Stage.LOADING
        request.num_computed_tokens = end
        self.unreported.add(request.request_id)
        return True

    def _missing_blocks(self, request: Request) -> int:
        """What a request that holds blocks needs beside them to come to its end."""
        if not request.tables:
            return 0
        wanted = sum(-(-(request.goal + 1) // shape.block_tokens) for shape in self.shape.groups)
        return wanted - sum(map(len, request.tables))

    def _cached_tokens(self, request: Request) -> int:
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

    def _take_cached(self, request: Request, tokens: int) -> None:
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

    def _extend(self, request: Request, count: int) -> bool:
        """Give a request blocks for some more tokens, and take those that left the window."""
        computed = request.num_computed_tokens
        for table, shape in zip(request.tables, self.shape.groups, strict=True):
            for position in range(min(shape.first_needed(computed), len(table))):
                self.pool.give_back([table[position]])
                table[position] = NULL
        new = self._grow_tables(request, computed + count, computed)
        if new is None:
            return False
        self._handed_out += new
        for group, shape in enumerate(self.shape.groups):
            self._cache(request, group, (computed + count) // shape.block_tokens)
        return True

    def _grow_tables(self, request: Request, tokens: int, window_at: int) -> list[int] | None:
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

    def _cache(self, request: Request, group: int, stop: int) -> None:
        keys = self.shape.keys(
            request.block_hashes, group, 0, min(stop, len(request.block_hashes))
        )
        for key, block in zip(keys, request.tables[group], strict=False):
            if block != NULL:
                self.pool.cache((group, key), block)

    def _preempt(self, request: Request) -> None:
        self._free(request)
        request.num_computed_tokens = 0
        request.stage = Stage.WAITING
        self.waiting.insert(0, request)

    def _free(self, request: Request) -> None:
        for table in request.tables:
            self.pool.give_back(table)
        request.tables = []

    # Their output.

    def _take_output(
        self, ended: Sequence[EndedLoad], scheduled: Sequence[tuple[Request, int]]
    ) -> None:
        for request, count in scheduled:
            request.num_in_flight_tokens -= count
            if request.num_computed_tokens == request.num_tokens:
                request.grow(self.shape.hash_tokens)
            if request.num_tokens > request.goal:
                self.running.remove(request)
                self._finish(request)
        for load in ended:
            self._end_load(load)

    def _end_load(self, load: EndedLoad) -> None:
        assert load.request_id in self.unreported, "reported twice, or never waited for"
        self.unreported.remove(load.request_id)
        request = self.requests[load.request_id]
        if request.stage is Stage.OVER:
            self._free(request)
            return
        assert request.stage is Stage.LOADING
        request.stage = Stage.WAITING
        if failed := set(load.failed_blocks):
            request.num_computed_tokens = self._valid_tokens(request, failed)
        if not request.num_computed_tokens:
            self._free(request)
            return
        for group, shape in enumerate(self.shape.groups):
            self._trim(request, group)
            self._cache(request, group, request.num_computed_tokens // shape.block_tokens)

    def _trim(self, request: Request, group: int) -> None:
        """Blocks whose load failed are handed out anew when they are computed."""
        keep = request.num_computed_tokens // self.shape.groups[group].block_tokens
        self.pool.give_back(request.tables[group][keep:])
        del request.tables[group][keep:]

    def _valid_tokens(self, request: Request, failed: set[int]) -> int:
        """vLLM keeps what lies before the first failed block, with several groups nothing."""
        if len(self.shape.groups) > 1:
            return 0
        table = request.tables[0]
        first = next(position for position, block in enumerate(table) if block in failed)
        return first * self.shape.groups[0].block_tokens

    def _finish(self, request: Request) -> None:
        was_loading = request.stage is Stage.LOADING
        request.stage = Stage.OVER
        self.half.finish(request, request.tables or [[] for _ in self.shape.groups])
        if not was_loading:
            self._free(request)
