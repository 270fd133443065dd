"""Tells KV that may be stored from KV that a reset has overtaken. Pure.

An epoch ends when the space was or may have been reset since. An engine's blocks carry the epoch in
which they were handed out to be written, and are stored in that epoch only. A restart of the daemon
ends none: what the engine has computed is as good as before, and is stored again. Where resets may have
been missed, the session says so (`Resync`); an engine at rest looks here only after a long time, and
then nothing but what was heard tells of several openings since.
"""

import math
from collections import deque

from kvstow.client.events import SessionEvent
from kvstow.client.standing import Generation, Snapshot, Ticket
from kvstow.client.vigil import FIRST_GENERATION
from kvstow.v1 import cache_pb2


class HeardResets:
    """Keeps what the session hears of resets until the engine's next step; for any thread."""

    def __init__(self) -> None:
        self._generations: deque[float | None] = deque()

    def hear(self, event: SessionEvent) -> None:
        """A session's `Callbacks.on_event`."""
        match event:
            case cache_pb2.SpaceReset():
                self._generations.append(event.generation)
            case cache_pb2.Resync():
                self._generations.append(math.inf)  # there may have been one

    def hear_reopening(self) -> None:
        """A session's `Callbacks.on_reopen`."""
        self._generations.append(None)

    def any_since(self, generation: int) -> bool:
        """Whether a reset was heard since the last call that led beyond this generation.

        After the session was opened again, generations do not compare with this one: every reset
        counts.
        """
        found, known = False, float(generation)
        for _ in range(len(self._generations)):
            heard = self._generations.popleft()
            if heard is None:
                known = 0.0
            else:
                found |= heard > known
        return found


class Epochs:
    """The epochs as one engine sees them.

    Args:
        heard: what its session hears; without it, a reset that is followed by a restart of the
            daemon before the engine's next step would go unseen.

    Attributes:
        current: rises by one with each; begins at 1.
        generation: in which the KV of the current epoch is to be stored. It is as old as the last
            observation, so that a reset that came since then makes the daemon refuse the store.
    """

    def __init__(self, heard: HeardResets) -> None:
        self._heard = heard
        self.current = 1
        self.generation = Generation(0, FIRST_GENERATION)
        self._ticket: Ticket | None = None

    def begin(self) -> None:
        """This engine resets the space."""
        self.current += 1

    def settle(self, now: Snapshot) -> None:
        """The reset of this engine was made, and led to this generation."""
        if now.ticket is not None and now.ticket == self._ticket:
            self.generation = now.generation

    def observe(self, now: Snapshot) -> bool:
        """What the session believes now; called with every step.

        Returns:
            True if nothing that was stored is stored any more.
        """
        epoch, known, ticket = self.current, self._ticket, now.ticket
        if self._heard.any_since(self.generation.number):
            self.current += 1
        if ticket is None:
            return epoch != self.current
        expected = self.generation.number
        if known is None or ticket.boot_id != known.boot_id:
            expected = FIRST_GENERATION
        if now.generation.number != expected:
            self.current += 1
        self._ticket, self.generation = ticket, now.generation
        return epoch != self.current or ticket != known
