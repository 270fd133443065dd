"""What was not stored, until it is offered again, and for how long nothing is offered at all.

Only the scheduler thread uses this.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

RETRY_S = 0.25
"""After how long it is offered again what was not stored."""

LONGEST_PAUSE_S = 4.0
"""How long nothing is offered after many refusals."""


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


class Later:
    """Offers that wait, each for the same time.

    Args:
        clock: seconds, rising.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: OrderedDict[int, tuple[float, Offer]] = OrderedDict()
        self._until = 0.0
        self._pause_s = RETRY_S

    def __contains__(self, block: int) -> bool:
        return block in self._waiting

    def put(self, offers: Iterable[Offer]) -> None:
        """Let these wait; of a block the last one counts."""
        due_at = self._clock() + RETRY_S
        for offer in offers:
            self._waiting[offer.block] = due_at, offer
            self._waiting.move_to_end(offer.block)

    def take_due(self, most: int) -> list[Offer]:
        """Those that have waited long enough, at most so many."""
        now, due = self._clock(), list[Offer]()
        while self._waiting and len(due) < most:
            due_at, offer = next(iter(self._waiting.values()))
            if due_at > now:
                break
            del self._waiting[offer.block]
            due.append(offer)
        return due

    def drop(self, block: int) -> None:
        """The block is about to be written, or offered at once."""
        self._waiting.pop(block, None)

    @property
    def is_pause(self) -> bool:
        """Whether it was refused something not long ago."""
        return self._clock() < self._until

    def pause(self) -> None:
        """Something was refused: wait, twice as long as the last time."""
        self._until = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def end_pauses(self) -> None:
        """Something was stored: the next pause is a short one."""
        self._pause_s = RETRY_S
