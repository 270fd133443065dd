"""The loads of an engine, from the admission of a request to the report that the engine waits for.

    waiting ------> running ------> ended ------> reported, in exactly one step
       |  sent, when no store reads its blocks      ^
       +--------------------------------------------+
         its request is over, or the daemon did not take it

The engine's blocks are the load's until it has ended; so nothing is reported before, however long
that takes. Only the scheduler thread uses this.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
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
class Load:
    """A load.

    Attributes:
        tracked: its request.
        keys, blocks: by group.
        hits: what a lookup said of the keys.
        transfer: once it was sent.
        wanted: the request is not over.
        since: when it was admitted.
    """

    tracked: Tracked
    keys: Mapping[int, list[bytes]]
    blocks: Mapping[int, list[int]]
    hits: Hits
    transfer: Transfer | None = None
    wanted: bool = True
    since: float = 0.0

    @property
    def numbers(self) -> list[int]:
        """Its blocks over all groups, in the order of positions in a transfer."""
        return [block for blocks in self.blocks.values() for block in blocks]

    @property
    def contents(self) -> Iterator[tuple[int, Name]]:
        """Its blocks, and what they are to hold."""
        for group, blocks in self.blocks.items():
            for block, key in zip(blocks, self.keys[group], strict=True):
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
        for keys in load.keys.values():
            self._keys.update(dict.fromkeys(keys, load))

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
                if load.transfer is None:
                    self._session.release(tracked.request.request_id)
                else:
                    self._session.cancel(load.transfer)

    def send(self, overwritten: Collection[int]) -> None:
        """Send those whose blocks nobody reads or writes.

        Args:
            overwritten: blocks that the workers write in this step.
        """
        waiting, self._waiting = self._waiting, []
        for load in waiting:
            if not load.wanted:
                self._end(load, ())
            elif self._blocks.readers(load.numbers) or not set(load.numbers).isdisjoint(
                overwritten
            ):
                self._waiting.append(load)
            else:
                self._send(load)

    def settle(self) -> None:
        """See which have ended."""
        running, self._running = self._running, []
        for load in running:
            if load.transfer is None or not load.transfer.done():
                self._running.append(load)
            else:
                self._end(load, self._failed_blocks(load, load.transfer))

    def take_ended(self) -> tuple[EndedLoad, ...]:
        """Those to be reported with this step."""
        ended, self._ended = self._ended, []
        for load, _ in ended:
            for key in (key for keys in load.keys.values() for key in keys):
                if self._keys.get(key) is load:
                    del self._keys[key]
        return tuple(report for _, report in ended)

    def _send(self, load: Load) -> None:
        request_id = load.tracked.request.request_id
        try:
            load.transfer = self._session.load(load.keys, load.blocks, load.hits)
        except Refused:
            load.transfer = None
        if load.transfer is None or not load.transfer.id:
            self._session.release(request_id)
            self._end(load, load.numbers)
        else:
            self._running.append(load)

    def _failed_blocks(self, load: Load, transfer: Transfer) -> list[int]:
        numbers = load.numbers
        if transfer.state is TransferState.DONE:
            return []
        if transfer.state is TransferState.FAILED and transfer.failures:
            return [numbers[position] for position in sorted(transfer.failed_positions)]
        return numbers

    def _end(self, load: Load, failed: Collection[int]) -> None:
        tracked = load.tracked
        if load.transfer is not None:
            self._blocks.confirm(
                (block, name) for block, name in load.contents if block not in failed
            )
        if failed and load.wanted:
            tracked.bypassed = True
            self._account.add(failed_loads=1)
        if not failed and load.wanted:
            self._account.add(loaded_blocks=len(load.numbers))
            if load.hits.generation == self._session.generation:  # they are stored still
                for block in load.numbers:
                    self._blocks.mark_offered(block)
        reported = tuple(failed) if load.wanted else ()
        self._ended.append((load, EndedLoad(tracked.request.request_id, reported)))
