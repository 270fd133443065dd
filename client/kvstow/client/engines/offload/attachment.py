"""Keeps one rank's memory attached to the session of another process, on a thread of its own.

So a daemon that does not answer never delays a step of the engine.
"""

import logging
import threading

from kvstow.client.closing import Closing
from kvstow.client.errors import DEVICE_BUSY, Refused, Unreachable
from kvstow.client.remote_rank import RemoteRank
from kvstow.client.standing import Ticket

_PAUSE_S = 0.2

_log = logging.getLogger(__name__)


class Attachment(Closing):
    """One rank.

    Args:
        rank: closed together with this.

    Attributes:
        attached: the opening of the session that the memory is attached to.
    """

    def __init__(self, rank: RemoteRank) -> None:
        self._rank = rank
        self._changed = threading.Condition()
        self._wanted: Ticket | None = None
        self._tried: Ticket | None = None
        self._closed = False
        self.attached: Ticket | None = None
        self._thread = threading.Thread(target=self._run, name="kvstow-rank", daemon=True)
        self._thread.start()

    def follow(self, ticket: Ticket | None) -> None:
        """Attach to this opening of the session, soon."""
        if ticket is not None and ticket != self._wanted:
            with self._changed:
                self._wanted = ticket
                self._changed.notify_all()

    def close(self) -> None:
        """Follow no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._rank.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wanted != self._tried)
                if self._closed:
                    return
                ticket = self._wanted
            if self._follow(ticket):
                self._tried = ticket
            else:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, _PAUSE_S)

    def _follow(self, ticket: Ticket | None) -> bool:
        """Try to attach; False if it is worth trying again."""
        try:
            self._rank.follow(ticket)
        except Unreachable:
            return False
        except Refused as refused:
            if refused.reason == DEVICE_BUSY:  # a copy of an earlier session still has to end
                return False
            if refused.reason != "NO_SUCH_SESSION":
                _log.error("the KV cache was not attached: %s %s", refused, refused.next_step)
            return True
        self.attached = ticket
        return True
