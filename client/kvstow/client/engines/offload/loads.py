"""The loads of an engine, from the admission of a request to the report that the engine waits for.

    waiting ------> running ------> ended ------> reported, in exactly one step
       |  sent, when no store reads its blocks      ^
       |  and few enough others run                 |
       +--------------------------------------------+
         its request is over, or the daemon did not take it

The engine's blocks are the load's until it has ended; so nothing is reported before, however long
that takes. Only the scheduler thread uses this.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvstow.client.errors import Refused
from kvstow.client.hits import Hits
from kvstow.client.transfer import Transfer, TransferState

from .account import Account, Name
from .blocks import EngineBlocks
from .requests import Tracked
from .session import CacheSession
from .steps import EndedLoad

PATIENCE_S = 1.0
"""How long a request may wait for another that is loading what both need."""


@dataclass(slots=True, eq=False)
class Part:
    """What one transfer loads: no more than the daemon takes in one call.

    Attributes:
        keys, blocks: by group.
        hits: what a lookup said of the keys.
        transfer: once it was sent.
    """

    keys: Mapping[int, list[bytes]]
    blocks: Mapping[int, list[int]]
    hits: Hits
    transfer: Transfer | None = None

    @property
    def numbers(self) -> list[int]:
        """Its blocks over all groups, in the order of positions in a transfer."""
        return [block for blocks in self.blocks.values() for block in blocks]

    @property
    def has_ended(self) -> bool:
        """Whether no copy of it runs."""
        return self.transfer is None or self.transfer.done()

    @property
    def failed(self) -> Collection[int]:
        """Blocks without their bytes, when it has ended."""
        transfer, numbers = self.transfer, self.numbers
        if transfer is not None and transfer.state is TransferState.DONE:
            return ()
        if transfer is not None and transfer.state is TransferState.FAILED and transfer.failures:
            return {numbers[position] for position in transfer.failed_positions}
        return numbers


@dataclass(slots=True, eq=False)
class Load:
    """All that is loaded for one request.

    Attributes:
        tracked: the request.
        parts: at least one.
        wanted: the request is not over.
        since: when it was admitted.
        after: the step that must have ended first, because it writes its blocks, or may still write
            them for whoever had them before; None until it is known.
    """

    tracked: Tracked
    parts: Sequence[Part]
    wanted: bool = True
    since: float = 0.0
    after: int | None = None

    @property
    def numbers(self) -> list[int]:
        """Its blocks."""
        return [block for part in self.parts for block in part.numbers]

    @property
    def under_way(self) -> int:
        """How many of its transfers have not ended."""
        return sum(not part.has_ended for part in self.parts)

    @property
    def contents(self) -> Iterator[tuple[int, Name]]:
        """Its blocks, and what they are to hold."""
        for part in self.parts:
            for group, blocks in part.blocks.items():
                for block, key in zip(blocks, part.keys[group], strict=True):
                    yield block, (group, key)


class Loads:
    """All loads that have not been reported."""

    def __init__(
        self,
        session: CacheSession,
        blocks: EngineBlocks,
        account: Account,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._account = account
        self._blocks = blocks
        self._clock = clock
        self._waiting: list[Load] = []
        self._running: list[Load] = []
        self._ended: list[tuple[Load, EndedLoad]] = []
        self._keys: dict[bytes, Load] = {}
        self._destinations: list[int] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running) + len(self._ended)

    def add(self, load: Load) -> None:
        """A request was admitted with blocks that are to be loaded."""
        load.tracked.loading = True
        load.since = self._clock()
        self._waiting.append(load)
        self._destinations += load.numbers
        self._keys.update((key, load) for _, (_, key) in load.contents)

    def take_destinations(self) -> list[int]:
        """Blocks of the loads that were added since the last call."""
        taken, self._destinations = self._destinations, []
        return taken

    def are_loading(self, key: bytes) -> bool:
        """Whether another request will soon have that block in the engine.

        Until its load is reported: the engine shares no block before it knows that it was loaded.
        """
        load = self._keys.get(key)
        return load is not None and self._clock() - load.since < PATIENCE_S

    def abandon(self, tracked: Tracked) -> None:
        """The request is over; its loads still end, and are still reported."""
        for load in self._waiting + self._running:
            if load.tracked is tracked:
                load.wanted = False
                self._session.release(*(part.hits.request for part in load.parts))
                transfers = (part.transfer for part in load.parts)
                self._session.cancel(*(each for each in transfers if each is not None))

    def send(self, overwritten: Collection[int], step: int, ended_step: int) -> None:
        """Send those whose blocks nobody reads or writes, as far as there is room; one alone is sent in any case.

        Args:
            overwritten: blocks that the workers write in this step.
            step: its number.
            ended_step: the last one that all workers have done.
        """
        waiting, self._waiting = self._waiting, []
        written, room = set(overwritten), self._room()
        for load in waiting:
            if not load.wanted:
                self._ended.append((load, EndedLoad(load.tracked.request.request_id)))
                continue
            numbers = load.numbers
            if load.after is None:
                load.after = step - 1
            if not written.isdisjoint(numbers):
                load.after = step
            if room < len(load.parts) and self._running:
                room = 0  # none behind it overtakes it
            if not room or load.after > ended_step or self._blocks.readers(numbers):
                self._waiting.append(load)
            else:
                for part in load.parts:
                    self._send(part)
                room -= load.under_way
                self._running.append(load)
        self.settle()

    def settle(self) -> None:
        """See which have ended."""
        running, self._running = self._running, []
        for load in running:
            if all(part.has_ended for part in load.parts):
                self._end(load)
            else:
                self._running.append(load)

    def take_ended(self) -> tuple[EndedLoad, ...]:
        """Those to be reported with this step."""
        ended, self._ended = self._ended, []
        for load, _ in ended:
            for _, (_, key) in load.contents:
                if self._keys.get(key) is load:
                    del self._keys[key]
        return tuple(report for _, report in ended)

    def _room(self) -> int:
        """How many more transfers may be under way: a quarter of what the daemon takes.

        Stores take half of it, and a quarter is for reports that are not acknowledged yet.
        """
        most = max(1, self._session.snapshot().terms.max_transfers // 4)
        return most - sum(load.under_way for load in self._running)

    def _send(self, part: Part) -> None:
        try:
            transfer = self._session.load(part.keys, part.blocks, part.hits)
        except Refused:
            self._session.release(part.hits.request)
            return
        if transfer.id:
            part.transfer = transfer
        else:  # it was never begun
            self._session.release(part.hits.request)

    def _end(self, load: Load) -> None:
        tracked, generation = load.tracked, self._session.snapshot().generation
        failed = {block for part in load.parts for block in part.failed}
        self._blocks.confirm((block, name) for block, name in load.contents if block not in failed)
        for part in load.parts:
            if load.wanted and part.hits.generation == generation:  # they are stored still
                for block in part.numbers:
                    if block not in failed:
                        self._blocks.mark_offered(block)
        if load.wanted:
            tracked.bypassed |= bool(failed)
            self._account.add(
                failed_loads=int(bool(failed)), loaded_blocks=len(load.numbers) - len(failed)
            )
        reported = tuple(sorted(failed)) if load.wanted else ()
        self._ended.append((load, EndedLoad(tracked.request.request_id, reported)))
