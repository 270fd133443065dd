"""Whether resets may have been missed before a session was opened again.

At the same process, the generation says whether there was one, as long as the space is the same. A new process begins
anew: nothing it says tells what happened at the old one while nobody listened. Nobody listens
either while this process stands still (SIGSTOP, say): the daemon may have given it up meanwhile, and the end of the
stream is only seen some time after it goes on. Only the session's own thread uses this.
"""

from collections.abc import Callable
from typing import NamedTuple

from .standing import Ticket

FIRST_GENERATION = 1
"""What the generation of a new space is: nobody has reset it yet."""

WITNESS_S = 2.0
"""A process that is found dead so soon after it was listened to has died then, as far as can be told. Who listens once
in so long has not stood still."""

WAKE_S = 5.0
"""For how long a stream must stand after this process stood still, to be taken for one that was never broken."""


class Opening(NamedTuple):
    """What the daemon said when a session was opened."""

    ticket: Ticket
    space_id: int
    generation: int


class Vigil:
    """Over the daemon process of one session, from one opening to the next.

    Args:
        clock: seconds, rising.

    Attributes:
        unsettled: an opening whose transfers may not have ended.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._watched: Opening | None = None
        self._beat_at = self._awake_at = self._deaf_at = 0.0
        self._died_at: float | None = None
        self.unsettled: Ticket | None = None

    def open(self, opening: Opening, asked_at: float, generation: int) -> bool:
        """A session was opened, for which was asked at that time.

        Args:
            generation: the last one that is known of the opening before.

        Returns:
            Whether resets may have been missed since the opening before.
        """
        before, self._watched = self._watched, opening
        unseen = self._died_at is None or self._died_at - self._deaf_at > WITNESS_S
        self._beat_at = self._awake_at = self._deaf_at = asked_at
        self._died_at = None
        self.unsettled = opening.ticket
        if before is None:
            return False
        if before.ticket.boot_id != opening.ticket.boot_id:
            return unseen or opening.generation != FIRST_GENERATION
        return (before.space_id, generation) != (opening.space_id, opening.generation)

    def listen(self) -> None:
        """The stream stands, as far as is seen; said twice a second at least, unless this process stands still."""
        now = self._clock()
        if now - self._beat_at > WITNESS_S:
            self._awake_at = now + WAKE_S
        self._beat_at = now
        if now >= self._awake_at:
            self._deaf_at = now

    def look(self, is_alive: Callable[[Ticket], bool | None]) -> bool | None:
        """Whether the process of the last opening lives; None if it does not say, or there was none."""
        if self._watched is None:
            return None
        found = is_alive(self._watched.ticket)
        if found is False and self._died_at is None:
            self._died_at = self._clock()
        return found
