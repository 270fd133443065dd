"""Whether a daemon process was heard until its end, so that no reset of it can have been missed.

A session that is opened again at the same process sees by the generation whether there was a reset. A
new process begins anew: nothing it says tells what happened at the old one while nobody listened. Only the
session's own thread uses this.
"""

from collections.abc import Callable

from .standing import Ticket

WITNESS_S = 2.0
"""A process that is found dead so soon after its stream ended has died then, as far as can be told."""


class Vigil:
    """Over the daemon process of one session, from one opening to the next.

    Args:
        clock: seconds, rising.

    Attributes:
        unsettled: an opening whose transfers may not have ended.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._watched: Ticket | None = None
        self._deaf_at = 0.0
        self._died_at: float | None = None
        self.unsettled: Ticket | None = None

    def open(self, ticket: Ticket, asked_at: float) -> bool:
        """A session was opened, for which was asked at that time.

        Returns:
            Whether resets of the process before may have been missed.
        """
        before, self._watched = self._watched, ticket
        missed = self._died_at is None or self._died_at - self._deaf_at > WITNESS_S
        self._deaf_at, self._died_at = asked_at, None
        self.unsettled = ticket
        return before is not None and before.boot_id != ticket.boot_id and missed

    def go_deaf(self) -> None:
        """The stream has ended; it had stood."""
        self._deaf_at = self._clock()

    def look(self, is_alive: Callable[[Ticket], bool | None]) -> bool | None:
        """Whether the process of the last opening lives; None if it does not say, or there was none."""
        if self._watched is None:
            return None
        found = is_alive(self._watched)
        if found is False and self._died_at is None:
            self._died_at = self._clock()
        return found
