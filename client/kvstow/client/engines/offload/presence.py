"""Whether the memory of all ranks is attached to the session as it is open now.

Nothing can be copied before. Right after the session was opened it is worth waiting for: the workers
hear of it with the next step and need milliseconds. Only the scheduler thread uses it.
"""

from collections.abc import Callable

from kvstow.client.standing import Ticket

from .session import CacheSession
from .steps import Report

PATIENCE_S = 2.0


class Presence:
    """The ranks of one engine.

    Args:
        world_size: how many there are.
        clock: seconds, rising.
    """

    def __init__(self, session: CacheSession, world_size: int, clock: Callable[[], float]) -> None:
        self._session = session
        self._ranks = range(world_size)
        self._clock = clock
        self._attached: dict[int, Ticket] = {}
        self._ticket: Ticket | None = None
        self._opened_at = clock()

    def hear(self, report: Report) -> None:
        """What the workers say."""
        self._attached.update(report.attached)

    def all_attached(self) -> bool:
        """Whether transfers can begin."""
        ticket = self._session.snapshot().ticket
        return ticket is not None and all(
            self._attached.get(rank) == ticket for rank in self._ranks
        )

    def worth_waiting(self) -> bool:
        """Whether they are likely to be attached soon."""
        ticket = self._session.snapshot().ticket
        if ticket != self._ticket:
            self._ticket, self._opened_at = ticket, self._clock()
        return ticket is not None and self._clock() - self._opened_at < PATIENCE_S
