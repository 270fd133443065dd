"""The scheduler half: what the connector interface of an engine's scheduler is made of.

In the order in which an engine calls: `add`, `find` (as often as it likes), `admit`, once for each
step `step` and, when the workers have answered, `hear`; at the end of a request `finish`. All of it
on the scheduler's thread; only transfers end on other threads, and that is looked up here.

Decided here: what happens in which order within a step. The order matters:
1. what has ended is settled, so that its blocks and keys are free again;
2. what is computed is sent, before the blocks that this step writes are known as handed out;
3. fences for the stores that read blocks which this step writes;
4. loads, except into blocks that a store reads or this step writes.
"""

import logging
from collections.abc import Callable, Sequence

from kvstow.client.errors import Unreachable

from .account import Account
from .blocks import EngineBlocks
from .collector import Collector
from .engine import Engine, Written
from .epochs import Epochs, HeardResets
from .finder import Finder
from .loads import Load, Loads, Part
from .presence import Presence
from .progress import Progress
from .requests import EngineRequest, Found, Tracked
from .session import CacheSession
from .steps import Report, Step
from .stores import Stores

_log = logging.getLogger(__name__)


class SchedulerHalf:
    """The scheduler half of one engine.

    Args:
        session: opened with an identity that fits the engine's shape.
        heard: gets the events of that session.
        clock: seconds, rising.

    Attributes:
        account: what it has done.
    """

    def __init__(
        self,
        session: CacheSession,
        heard: HeardResets,
        engine: Engine,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._engine = engine
        self.account = Account(engine.keeps_news)
        self._epochs = Epochs(heard)
        self._blocks = EngineBlocks(engine.shape.block_count)
        self._presence = Presence(session, engine.world_size, clock)
        self._loads = Loads(session, self._blocks, self.account, clock)
        self._stores = Stores(session, self._blocks, self._epochs, self._presence, clock)
        self._finder = Finder(session, engine, self._presence, self._loads, self.account, clock)
        self._progress = Progress(engine.shape, engine.table, self._blocks)
        self._collector = Collector(engine, self._stores, clock)
        self._requests: dict[str, Tracked] = {}

    def add(self, request: EngineRequest) -> None:
        """A request has arrived."""
        self._tracked(request)

    def find(self, request: EngineRequest, computed_tokens: int) -> int | None:
        """How many tokens behind the computed ones can be loaded, and are held until they are.

        Returns:
            Their number; None to be asked again with the next step.
        """
        return self._finder.find(self._tracked(request), computed_tokens)

    def admit(
        self, request: EngineRequest, tables: Sequence[Sequence[int]], loaded_tokens: int
    ) -> None:
        """A waiting request was given blocks.

        Args:
            tables: for each group, its block ids.
            loaded_tokens: how many of the tokens that were found are to be loaded.
        """
        tracked = self._tracked(request)
        self._progress.admit(tracked, tables)
        tracked.scanned.clear()
        if loaded_tokens:
            self._loads.add(self._load(tracked, tables, loaded_tokens))
            tracked.promise = None
        else:
            tracked.loading = False  # the engine knows by now what of it failed
            self._finder.release(tracked)

    def step(self, written: Written) -> Step:
        """Everything for one step."""
        self._progress.step += 1
        self._collector.begin_step()
        self._observe()
        self._settle()
        self._collect()
        self._stores.send()
        overwritten = [*written.handed_out, *written.zeroed]
        fences = self._blocks.readers(overwritten)
        self.account.add(fences=len(fences))
        self._hand_out(written)
        self._progress.begin()
        self._loads.send(overwritten, self._progress.step, self._progress.ended_step)
        return Step(
            number=self._progress.step,
            ticket=self._session.snapshot().ticket,
            board=self._stores.board.path,
            fences=tuple(sorted(fences)),
            ended=self._loads.take_ended(),
        )

    def hear(self, report: Report | None) -> None:
        """A step's output is there: what it computed is computed."""
        if report is not None:
            self._presence.hear(report)
            self._progress.ended_step = report.step
        self._observe()
        self._settle()
        self._collect()

    def finish(self, request: EngineRequest, tables: Sequence[Sequence[int]]) -> None:
        """A request is over, however it ended; its blocks are given back to the engine.

        Args:
            tables: for each group, its block ids.
        """
        tracked = self._requests.pop(request.request_id, None)
        if tracked is None:
            return
        self._finder.release(tracked)
        self._loads.abandon(tracked)
        self._progress.leave(tracked, tables, self._requests.values())
        self._settle()
        self._collector.finish(tracked, tables)

    def reset(self) -> bool:
        """Reset the space. Nothing stored or computed before is found or stored from now on.

        Returns:
            False if the daemon could not be reached: then it is made as soon as it can be, and
            nothing is found until then.
        """
        self._epochs.begin()
        self._forget()
        for tracked in self._requests.values():
            tracked.promise = None  # the reset ends all leases
        try:
            self._session.reset()
        except Unreachable as error:
            _log.warning("the cache could not be reset, and is not used until it was: %s", error)
            return False
        self._epochs.settle(self._session.snapshot())
        return True

    def take_counts(self) -> dict[str, int]:
        """What has risen since the last call; see `Account`."""
        return self.account.take_counts(self._session.counters())

    def is_busy(self) -> bool:
        """Whether the engine must go on with its steps, if need be empty ones."""
        return bool(len(self._loads) or self._stores.batch_count or self._collector.is_busy)

    def close(self, wait_s: float) -> None:
        """End the session; waits for stores that are under way."""
        self._session.close(wait_s)
        self._stores.board.close()

    def _tracked(self, request: EngineRequest) -> Tracked:
        found = self._requests.get(request.request_id)
        if found is None:
            found = self._requests[request.request_id] = Tracked(request)
        return found

    def _observe(self) -> None:
        if self._epochs.observe(self._session.snapshot()):
            self._forget()

    def _forget(self) -> None:
        """Nothing that was stored is stored any more."""
        self._stores.forget()
        self.account.drop_all()

    def _settle(self) -> None:
        stored = self._stores.settle()
        self.account.add_stored((offer.group, offer.key) for offer in stored)
        self._loads.settle()

    def _collect(self) -> None:
        self._progress.confirm(self._requests.values())
        self._collector.collect(self._requests.values())

    def _load(self, tracked: Tracked, tables: Sequence[Sequence[int]], loaded_tokens: int) -> Load:
        promise = tracked.promise
        assert promise is not None, "the engine loads what was not found"
        end = promise.start + loaded_tokens
        parts = [self._part(tracked, tables, found, end) for found in promise.found]
        used = [part for part in parts if part.numbers]
        self._session.release(*(part.hits.request for part in parts if not part.numbers))
        return Load(tracked, used)

    def _part(
        self, tracked: Tracked, tables: Sequence[Sequence[int]], found: Found, end: int
    ) -> Part:
        """What is loaded up to a token of what one lookup has found."""
        shape = self._engine.shape
        keys: dict[int, list[bytes]] = {}
        blocks: dict[int, list[int]] = {}
        for group, table in enumerate(tables):
            block_tokens = shape.groups[group].block_tokens
            first, last = found.start // block_tokens, -(-min(found.end, end) // block_tokens)
            named = shape.keys(tracked.request.block_hashes, group, first, max(first, last))
            pairs = [
                (key, block)
                for key, block in zip(named, table[first:last], strict=True)
                if block != shape.null_block
            ]
            keys[group] = [key for key, _ in pairs]
            blocks[group] = [block for _, block in pairs]
        return Part(keys, blocks, found.hits)

    def _hand_out(self, written: Written) -> None:
        blocks = [*written.handed_out, *self._loads.take_destinations()]
        self._stores.drop(blocks)
        self._blocks.hand_out(
            blocks, self._epochs.current, self._progress.step, written.copied_from
        )
