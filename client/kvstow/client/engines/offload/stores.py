"""The stores of an engine: what is worth offering, one transfer a step, and what became of each.

A block is collected when it is known to be computed, and sent with the next step. In between it may
be handed out to another request; that is no harm as long as it was not written: a store that is sent
in the step that hands the block out is a fence for that step. What cannot be sent then is dropped.

What was not stored (no space, a failed copy, a daemon that went away) is found again, because then
the requests are looked through from their first block; and a request that ends offers all its
blocks again, because the daemon may have evicted some. Only the scheduler thread uses this.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kvstow.client.errors import STALE_GENERATION, Refused
from kvstow.client.standing import SessionState
from kvstow.client.transfer import Transfer, TransferState

from .blocks import EngineBlocks
from .board import SLOTS, Board
from .epochs import Epochs
from .presence import Presence
from .session import CacheSession

MAX_KEYS = 4096
"""Keys in one transfer."""

RETRY_S = 0.25
"""How long nothing is offered after something was refused."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Offer:
    """A block that is computed.

    Attributes:
        declined: where to note that the daemon's admission policy did not take it.
    """

    group: int
    key: bytes
    block: int
    declined: set[bytes]


@dataclass(frozen=True, slots=True)
class Flight:
    """A store under way.

    Attributes:
        number: on the board.
        offers: what it offered, in the order of positions in the transfer.
        void: what it stores is void already.
    """

    number: int
    transfer: Transfer
    offers: Sequence[Offer]
    void: bool = False


class Stores:
    """All stores of one engine.

    Attributes:
        scan: rises when requests must be looked through from their first block.
        board: where their ends are marked.
    """

    def __init__(
        self,
        session: CacheSession,
        blocks: EngineBlocks,
        epochs: Epochs,
        presence: Presence,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._blocks = blocks
        self._epochs = epochs
        self._presence = presence
        self.board = Board()
        self._clock = clock
        self._batch: dict[int, Offer] = {}
        self._keys: set[tuple[int, bytes]] = set()
        self._flights: list[Flight] = []
        self._last_number = 0
        self._retry_at = 0.0
        self.scan = 1

    @property
    def batch_count(self) -> int:
        """Blocks that wait to be sent."""
        return len(self._batch)

    def are_welcome(self, last_chance: bool = False) -> bool:
        """Whether it makes sense to collect; soon after a refusal only if it is the last chance."""
        is_time = last_chance or self._clock() >= self._retry_at
        return is_time and self._session.state is SessionState.OPEN

    def collect(self, offers: Iterable[Offer], again: bool = False) -> None:
        """Take what is new of these blocks into the next transfer.

        Args:
            again: also what was offered before, if the daemon did not decline it.
        """
        for offer in offers:
            name = (offer.group, offer.key)
            if name in self._keys or offer.block in self._batch:
                continue
            if not self._blocks.may_be_stored(offer.block, name, self._epochs.current):
                continue
            if self._blocks.is_offered(offer.block) and (not again or offer.key in offer.declined):
                continue
            self._batch[offer.block] = offer
            self._keys.add(name)

    def send(self) -> None:
        """Send one transfer with what was collected, if anything."""
        if not self._batch:
            return
        if self._session.state is not SessionState.OPEN or self._is_full():
            self._put_off()
        elif self._presence.all_attached():
            self._send(self._take())
        elif not self._presence.worth_waiting():
            self._put_off()

    def drop(self, blocks: Iterable[int]) -> None:
        """These blocks are about to be written; what was not sent is lost."""
        if self._batch:
            for block in blocks:
                offer = self._batch.pop(block, None)
                if offer is not None:
                    self._keys.discard((offer.group, offer.key))

    def forget(self) -> None:
        """Nothing that was stored is stored any more, and nothing collected may be."""
        self._batch.clear()
        self._keys.clear()
        self._flights = [replace(flight, void=True) for flight in self._flights]
        self._blocks.forget_offers()
        self.scan += 1

    def settle(self) -> list[Offer]:
        """See which have ended; returns what they stored."""
        flights, self._flights = self._flights, []
        stored: list[Offer] = []
        for flight in flights:
            if flight.transfer.done():
                stored += self._end(flight)
            else:
                self._flights.append(flight)
        return stored

    def _is_full(self) -> bool:
        return bool(self._flights) and self._last_number - self._flights[0].number >= SLOTS // 2

    def _put_off(self) -> None:
        self.drop(list(self._batch))
        self._back_off()

    def _back_off(self) -> None:
        self._retry_at = self._clock() + RETRY_S
        self.scan += 1

    def _take(self) -> list[Offer]:
        taken = [self._batch.pop(block) for block in list(self._batch)[:MAX_KEYS]]
        return sorted(taken, key=lambda offer: offer.group)

    def _send(self, offers: list[Offer]) -> None:
        groups = {group: list(some) for group, some in groupby(offers, lambda one: one.group)}
        keys = {group: [offer.key for offer in some] for group, some in groups.items()}
        blocks = {group: [offer.block for offer in some] for group, some in groups.items()}
        try:
            transfer = self._session.store(keys, blocks, self._epochs.generation)
        except Refused as refused:
            if refused.reason != STALE_GENERATION:
                _log.warning("a store was refused: %s %s", refused, refused.next_step)
            self._release(offers)
            self._back_off()
            return
        self._begin(transfer, offers)

    def _begin(self, transfer: Transfer, offers: list[Offer]) -> None:
        self._last_number += 1
        number = self._last_number
        self._flights.append(Flight(number, transfer, offers))
        # Without the daemon's answer all of them may be read.
        statuses = transfer.statuses or "A" * len(offers)
        for offer, status in zip(offers, statuses, strict=True):
            self._blocks.mark_offered(offer.block)
            if status == "A":
                self._blocks.begin_reading(offer.block, number)
        transfer.add_done_callback(lambda _: self.board.mark(number))

    def _end(self, flight: Flight) -> list[Offer]:
        transfer, offers = flight.transfer, flight.offers
        for offer in offers:
            self._blocks.end_reading(offer.block, flight.number)
        if flight.void:
            return []  # its keys may be under way again
        self._release(offers)
        statuses = transfer.statuses or "?" * len(offers)
        failed = transfer.failed_positions
        stored, lost = [], False
        for position, (offer, status) in enumerate(zip(offers, statuses, strict=True)):
            if status == "D":
                offer.declined.add(offer.key)
            elif status == "N" or self._was_lost(transfer, status, position in failed):
                self._blocks.forget_offer(offer.block)
                lost = True
            elif status == "A":
                stored.append(offer)
        if lost:
            self._back_off()
        return stored

    def _was_lost(self, transfer: Transfer, status: str, failed: bool) -> bool:
        """Whether a block that was accepted, or may have been, was not stored."""
        if status not in "A?" or transfer.state is TransferState.DONE:
            return False
        return transfer.state is not TransferState.FAILED or failed or not transfer.failures

    def _release(self, offers: Iterable[Offer]) -> None:
        self._keys.difference_update((offer.group, offer.key) for offer in offers)
