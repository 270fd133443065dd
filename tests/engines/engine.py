"""A simulated engine: schedules as vLLM does, and computes values instead of KV.

It drives a scheduler half as vLLM drives a connector and checks what the half promises: fences for exactly the stores
that read what a step overwrites, every load reported once and only for a request that waits for it, and KV that is
what the request's tokens make it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engines.daemon import SimulatedSession
from engines.manners import STEP_TOKENS, Manners
from engines.memory import Memory
from engines.pool import Pool
from engines.request import Chunk, Request, Stage
from engines.tables import Tables
from engines.workers import SimulatedWorkers
from kvstow.client import TransferState
from kvstow.client.engines.offload.engine import Engine, Written
from kvstow.client.engines.offload.scheduler import SchedulerHalf
from kvstow.client.engines.offload.shape import Shape
from kvstow.client.engines.offload.steps import EndedLoad, Report, Step

LAZY_BLOCKS = 4


@dataclass(frozen=True)
class Planned:
    """A step whose output was not taken yet."""

    step: Step
    handed_out: Sequence[int]
    chunks: Sequence[Chunk]


class SimulatedEngine:
    """An engine with a connector's scheduler half; its workers are one.

    Args:
        lazy: blocks are offered when they are evicted next.
        urgent_first: a request that needs blocks takes those of the least urgent one, also if that was scheduled in the
            same step already, whose blocks keep the names of what it would have computed. None gets a whole step.
        ahead: a step is planned while the one before it runs.
        defers: no block is used again that a step under way may write.
        drafts: how many tokens are guessed behind the last one, and computed with it.

    Attributes:
        unreported: requests whose load the engine waits for.
    """

    def __init__(
        self,
        shape: Shape,
        lazy: bool = False,
        urgent_first: bool = False,
        ahead: bool = False,
        defers: bool = True,
        drafts: int = 0,
    ) -> None:
        self._manners = Manners(urgent_first, ahead, defers, drafts)
        self._tables = Tables(shape, Pool(shape.block_count), defers)
        self.memory = Memory(shape.block_count)
        self.session = SimulatedSession(self.memory)
        self.now = 0.0
        self._workers = SimulatedWorkers(shape, self.memory, self.session, trusting=urgent_first)
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
        self._planned: list[Planned] = []
        self.unreported: set[str] = set()

    def add(self, tokens: bytes, generate: int, skip: bool, urgency: int = 0) -> Request:
        """A request arrives."""
        goal = len(tokens) + generate
        request = Request(str(len(self.requests) + 1), tokens, goal, skip, [], len(tokens))
        request.urgency = urgency
        request.hash(self.shape.hash_tokens)
        self.requests[request.request_id] = request
        self.waiting.append(request)
        self.half.add(request)
        return request

    @property
    def shape(self) -> Shape:
        """Of its blocks."""
        return self._tables.shape

    @property
    def pool(self) -> Pool:
        """Its blocks."""
        return self._tables.pool

    @property
    def is_busy(self) -> bool:
        """Whether it has anything left to do."""
        return bool(self.waiting or self.running or self._planned or self.half.is_busy())

    def step(self) -> None:
        """One step: schedule; compute and take the output, if steps are planned ahead those of the step before."""
        self.now += 0.1
        scheduled = self._schedule()
        handed_out = self._tables.plan()
        step = self.half.step(Written(handed_out=tuple(handed_out)))
        chunks = [request.plan(count) for request, count in scheduled]
        for chunk in chunks:
            chunk.request.num_computed_tokens += chunk.count
            chunk.request.num_in_flight_tokens += chunk.count
        self._planned.append(Planned(step, handed_out, chunks))
        while len(self._planned) > int(self._manners.ahead and bool(scheduled)):
            self._execute(self._planned.pop(0))

    def _execute(self, planned: Planned) -> None:
        step = planned.step
        self._workers.work(step, planned.handed_out, planned.chunks)
        self._tables.end_step(step.number)
        if self.session.faults.quick:
            self.end_copies()
        self._take_output(step.ended, planned.chunks)
        self.half.hear(Report(step.number, self.session.attach()))

    def abort(self, request: Request) -> None:
        """Its user has gone."""
        (self.running if request in self.running else self.waiting).remove(request)
        self._finish(request)

    def preempt_all(self, drop_stale: bool = False) -> None:
        """Take the blocks of all running requests, if they can be used again.

        Args:
            drop_stale: what a step under way says of them does not count.
        """
        for request in list(self.running):
            if not (self._manners.defers and request.num_in_flight_tokens):
                self._preempt(request, drop_stale)

    def reset(self, running: bool) -> bool | None:
        """As vLLM's `reset_prefix_cache(reset_connector=True)`; None where that raises."""
        if running:
            self.preempt_all(drop_stale=True)
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
        budget, scheduled, waiting = STEP_TOKENS, [], list(self.waiting)
        for request in list(self.running):
            count = min(budget, self._manners.token_count(request))
            if request in self.running and count > 0 and self._make_room(request, count):
                scheduled.append((request, count))
                budget -= count
        scheduled = [(request, count) for request, count in scheduled if request in self.running]
        if len(self.waiting) > len(waiting):
            return scheduled  # blocks were taken from others: nobody else gets any
        # Those that hold loaded blocks first, or they and the others would wait for each other.
        for request in sorted(self.waiting, key=lambda request: not request.num_computed_tokens):
            if request.may_begin and budget > 0:
                admitted = self._admit(request, budget)
                if admitted is None:
                    break
                if admitted:
                    scheduled.append((request, admitted))
                    budget -= admitted
        return scheduled

    def _make_room(self, request: Request, count: int) -> bool:
        """Give a running request blocks, if need be those of others, also of such as were scheduled before it."""
        while not self._tables.extend(request, count):
            victim = self.running[-1]
            if self._manners.urgent_first:
                victim = min(self.running, key=lambda each: each.urgency)
            if self._manners.defers and victim.num_in_flight_tokens:
                return False
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _admit(self, request: Request, budget: int) -> int | None:
        """Give a waiting request blocks; returns how many tokens of it run, None if none fit."""
        found = request.num_computed_tokens
        if not found:
            found = self._tables.cached_tokens(request)
            external = self.half.find(request, found)
            if external is None:
                return 0
            assert not (external and request.skip_reading_prefix_cache)
            self._tables.take_cached(request, found)
            if external:
                return 0 if self._begin_load(request, found, external) else None
        count = min(budget, self._manners.most_tokens, request.num_tokens - found)
        was_loaded = bool(request.num_computed_tokens)
        request.num_computed_tokens = found
        if not self._tables.extend(request, count):
            if not was_loaded:
                request.num_computed_tokens = 0
                self._tables.give_back(request)
            return None
        self.half.admit(request, request.tables, 0)
        self.waiting.remove(request)
        self.running.append(request)
        request.stage = Stage.RUNNING
        return count

    def _begin_load(self, request: Request, found: int, external: int) -> bool:
        end = found + external
        assert end < request.num_tokens, "the last token is never loaded"
        reserved = sum(map(self._tables.missing_count, self.waiting))
        if reserved > len(self.pool.free) or self._tables.grow(request, end, end) is None:
            self._tables.give_back(request)
            return False
        self.half.admit(request, request.tables, external)
        request.stage = Stage.LOADING
        request.num_computed_tokens = end
        self.unreported.add(request.request_id)
        return True

    def _preempt(self, request: Request, drop_stale: bool = False) -> None:
        self.running.remove(request)
        self._tables.give_back(request)
        request.num_computed_tokens = 0
        request.stale.begin(request.num_in_flight_tokens, drop_stale)
        request.stage = Stage.WAITING
        self.waiting.insert(0, request)

    # Their output.

    def _take_output(self, ended: Sequence[EndedLoad], chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            request, is_stale = chunk.request, chunk.request.stale.count > 0
            request.num_in_flight_tokens -= chunk.count
            if is_stale:
                request.stale.count -= chunk.count
            if request.stage is Stage.OVER or (is_stale and request.stale.is_dropped):
                continue
            if chunk.end == request.num_tokens:
                wrong_count = request.generate(chunk.drafts, self.shape.hash_tokens)
                request.num_computed_tokens -= 0 if is_stale else wrong_count
            if request.num_tokens > request.goal:
                (self.running if request in self.running else self.waiting).remove(request)
                self._finish(request)
        for load in ended:
            self._end_load(load)

    def _end_load(self, load: EndedLoad) -> None:
        assert load.request_id in self.unreported, "reported twice, or never waited for"
        self.unreported.remove(load.request_id)
        request = self.requests[load.request_id]
        if request.stage is Stage.OVER:
            self._tables.give_back(request)
            return
        assert request.stage is Stage.LOADING
        request.stage = Stage.WAITING
        if failed := set(load.failed_blocks):
            request.num_computed_tokens = self._tables.valid_tokens(request, failed)
        if not request.num_computed_tokens:
            self._tables.give_back(request)
            return
        for group, shape in enumerate(self.shape.groups):
            self._tables.trim(request, group)
            self._tables.cache(request, group, request.num_computed_tokens // shape.block_tokens)

    def _finish(self, request: Request) -> None:
        was_loading = request.stage is Stage.LOADING
        request.stage = Stage.OVER
        self.half.finish(request, request.tables or [[] for _ in self.shape.groups])
        if not was_loading:
            self._tables.give_back(request)
