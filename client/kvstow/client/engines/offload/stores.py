"""The stores of an engine: what is worth offering, one transfer a step, and what became of each.

A block is collected when it is known to be computed, and sent with the next step. In between it may
be handed out to another request; that is no harm as long as it was not written: a store that is sent
in the step that hands the block out is a fence for that step. What cannot be sent then is dropped.

What was not stored is offered again after a while, as long as its block holds it: what was refused or
failed, and what another engine, or another request of this one, was storing just then. After a refusal
nothing at all is offered for a while, the longer the more follow each other. Only the scheduler thread
uses this.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from kvstow.client.errors import STALE_GENERATION, Refused
from kvstow.client.standing import SessionState
from kvstow.client.transfer import Transfer, TransferState

from .blocks import EngineBlocks
from .board import SLOTS, Board
from .epochs import Epochs
from .later import Later, Offer
from .presence import Presence
from .session import CacheSession

STEP_KEYS = 1024
"""Most keys in one transfer: each costs the step that sends it some microseconds."""

_log = logging.getLogger(__name__)


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
        self._batch: dict[int, Offer] = {}
        self._keys: set[tuple[int, bytes]] = set()
        self._flights: list[Flight] = []
        self._later = Later(clock)
        self._last_number = 0
        self.scan = 1

    @property
    def batch_count(self) -> int:
        """Blocks that wait to be sent."""
        return len(self._batch)

    @property
    def most_keys(self) -> int:
        """How many keys one transfer names at most; 0 before there was a daemon."""
        return min(self._session.snapshot().terms.max_keys, STEP_KEYS)

    @property
    def are_under_way(self) -> bool:
        """Whether any has not ended."""
        return bool(self._flights)

    @property
    def next_number(self) -> int:
        """Of the next one."""
        return self._last_number + 1

    def have_ended(self, number: int) -> bool:
        """Whether all up to this one have, of those that were sent."""
        return not self._flights or self._flights[0].number > number

    def are_welcome(self, last_chance: bool = False) -> bool:
        """Whether it makes sense to collect; soon after a refusal only if it is the last chance."""
        is_time = last_chance or not self._later.is_pause
        return is_time and self._session.snapshot().state is SessionState.OPEN

    def collect(self, offers: Iterable[Offer], again: bool = False) -> None:
        """Take what is new of these blocks into the next transfer.

        Args:
            again: also what was offered before, if the daemon did not decline it.
        """
        for offer in offers:
            name = (offer.group, offer.key)
            if not self._blocks.may_be_stored(offer.block, name, self._epochs.current):
                continue
            if offer.block in self._batch:
                if again:  # it comes behind what stands before it
                    self._batch[offer.block] = self._batch.pop(offer.block)
                continue
            if offer.block in self._later and not again:
                continue
            if self._blocks.is_offered(offer.block) and (not again or offer.key in offer.declined):
                continue
            if name in self._keys:
                self._put_off([offer])
            else:
                self._later.drop(offer.block)
                self._batch[offer.block] = offer
                self._keys.add(name)

    def collect_due(self, most: int) -> int:
        """Take what is to be offered again, at most so many; returns how many were looked at."""
        due = self._later.take_due(most)
        self.collect(due)
        return len(due)

    def send(self) -> None:
        """Send one transfer with what was collected, if anything."""
        if not self._batch:
            return
        now = self._session.snapshot()
        if now.state is not SessionState.OPEN or self._is_full():
            self._put_off_all()
        elif self._presence.all_attached():
            self._send(self._take(self.most_keys))
        elif not self._presence.worth_waiting():
            self._put_off_all()

    def drop(self, blocks: Iterable[int]) -> None:
        """These blocks are about to be written; what was not sent is lost."""
        for block in blocks:
            self._later.drop(block)
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
        """Whether half of the board is used, or half of what the daemon takes: the rest is for loads and for reports."""
        if not self._flights:
            return False
        most = min(SLOTS, self._session.snapshot().terms.max_transfers) // 2
        return self._last_number - self._flights[0].number + 1 >= most

    def _put_off_all(self) -> None:
        offers = list(self._batch.values())
        self._batch.clear()
        self._release(offers)
        self._put_off(offers)
        self._later.pause()

    def _put_off(self, offers: list[Offer]) -> None:
        """Offer these again, but not soon."""
        for offer in offers:
            self._blocks.forget_offer(offer.block)
        self._later.put(offers)

    def _take(self, most: int) -> list[Offer]:
        taken = [self._batch.pop(block) for block in list(islice(self._batch, most))]
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
            self._put_off(offers)
            self._later.pause()
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
        outcomes = [
            self._outcome(transfer, status, position in failed)
            for position, status in enumerate(statuses)
        ]
        for offer, outcome in zip(offers, outcomes, strict=True):
            if outcome == "D":
                offer.declined.add(offer.key)
        if "W" in outcomes or "N" in outcomes:
            # With all that was named with it: alone it would stay longer than what stands before it.
            pairs = zip(offers, outcomes, strict=True)
            self._put_off([offer for offer, outcome in pairs if outcome != "D"])
        stored = [offer for offer, outcome in zip(offers, outcomes, strict=True) if outcome == "A"]
        if "N" in outcomes:
            self._put_off_all()
        elif stored:
            self._later.end_pauses()
        return stored

    def _outcome(self, transfer: Transfer, status: str, failed: bool) -> str:
        """The daemon's letter for a block, "N" if it was accepted, or may have been, and was not stored."""
        if status not in "A?" or transfer.state is TransferState.DONE:
            return status
        lost = failed or not transfer.failures
        return "N" if lost or transfer.state is not TransferState.FAILED else status

    def _release(self, offers: Iterable[Offer]) -> None:
        self._keys.difference_update((offer.group, offer.key) for offer in offers)
