"""The session's own thread: opens it, hears its stream, and opens it again when it was lost.

    not open --- open: session, ranks ---> stream ---> stands: hear events
       ^                                     ^                  |
       |                                     +-- still known ---+ stream broke
       +----------- lost: settle transfers <------- not known --+

A lost session's transfers are ended (LOST) only when none of their copies can run any more: the
daemon process has ended, or it lists none of them. Until then the session is not opened again, and
the engine gets misses; blocks that a copy may still touch are never given back early.
Decided here: in which order things happen. Not decided here: what they do to the session's beliefs
(`standing`) and to calls under way (`session`).
"""

import logging
import threading
import time
from functools import partial

from kvstow.v1 import cache_pb2

from .calls import Calls
from .errors import TRANSIENT, KvstowError, Refused, Unreachable
from .events import SessionEvents
from .opener import Opener
from .standing import SessionState, Standing, Ticket
from .stream import Cursor, EventStream
from .vigil import Opening, Vigil

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0

_log = logging.getLogger(__name__)


class Upkeep:
    """Keeps one session open.

    Args:
        limit_s: how long a stream may take to stand, and a reset that is owed to be made.
    """

    def __init__(
        self,
        calls: Calls,
        limit_s: float,
        standing: Standing,
        opener: Opener,
        events: SessionEvents,
    ) -> None:
        self._calls = calls
        self._limit_s = limit_s
        self._standing = standing
        self._opener = opener
        self._events = events
        self._stopped = threading.Event()
        self._stream: EventStream | None = None
        self._cursor = Cursor()
        self._vigil = Vigil(time.monotonic)
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="kvstow-session", daemon=True)
        standing.when_lost = lambda ticket: self._cancel_stream()

    def start(self, must_connect: bool) -> None:
        """Open the session on the calling thread, and begin to keep it.

        Args:
            must_connect: raise if the daemon is not there, instead of going on without it.

        Raises:
            Refused: the daemon does not take the session.
            Unreachable: it does not answer, or its stream does not stand in time.
        """
        try:
            self._open()
        except Refused as refused:
            if must_connect or refused.reason not in TRANSIENT:
                raise
        except Unreachable:
            if must_connect:
                raise
        self._thread.start()
        if self._standing.ticket is None:
            return
        stands = self._standing.wait_until(
            lambda: self._standing.state is not SessionState.AWAY, self._limit_s
        )
        if must_connect and not stands:
            self.close()
            raise Unreachable(f"the stream did not stand within {self._limit_s} s")

    def check_thread(self) -> None:
        """Refuse to be closed from a callback.

        Raises:
            RuntimeError: this is the session's own thread, whose end closing waits for.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback must not close the session that called it")

    def close(self) -> None:
        """End the session and keep it no longer; returns when no callback runs any more."""
        self._standing.close()
        self._stopped.set()
        self._cancel_stream()
        self._thread.join()
        self._opener.close()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopped.is_set():
            ticket = self._standing.ticket
            if self._reopen() if ticket is None else self._follow(ticket):
                pause_s = FIRST_PAUSE_S
            else:
                self._stopped.wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _open(self) -> None:
        asked_at = time.monotonic()
        self._cursor = self._opener.open(partial(self._announce, asked_at))

    def _announce(self, asked_at: float, opening: Opening) -> None:
        if self._vigil.open(opening, asked_at, self._standing.generation.number):
            self._events.missed_resets()

    def _reopen(self) -> bool:
        """Try to open the session; True if it is open."""
        if not self._settle():
            return False
        try:
            self._open()
        except KvstowError as error:
            if str(error) != self._trouble:  # said once, not with every attempt
                self._trouble = str(error)
                _log.warning("the session cannot be opened: %s", error)
            self._vigil.look(self._opener.is_alive)
            return False
        self._trouble = ""
        _log.info("the session is open again: %s", self._standing.ticket)
        self._events.reopened()
        return True

    def _settle(self) -> bool:
        """Make sure that copies of the session that was lost run no more."""
        lost = self._vigil.unsettled
        if lost is not None:
            if not self._opener.settle(lost, self._vigil.look(self._opener.is_alive)):
                return False
            self._vigil.unsettled = None
        return True

    def _follow(self, ticket: Ticket) -> bool:
        """Hear the session's stream until it ends; True if it stood."""
        match self._vigil.look(self._opener.is_alive):
            case None:
                return False
            case False:
                self._standing.lose(ticket)
                return False
        stream = self._stream = EventStream(self._calls, ticket, self._cursor)
        if self._stopped.is_set() or self._standing.ticket != ticket:
            stream.cancel()  # whoever wanted that may not have seen the stream yet
        stood = self._hear(stream, ticket)
        self._standing.set_state(ticket, SessionState.AWAY)
        error = stream.error()
        if not self._stopped.is_set() and not isinstance(error, Unreachable):
            _log.warning("the session is lost: %s", error or "it was closed")
            self._standing.lose(ticket)
        return stood

    def _hear(self, stream: EventStream, ticket: Ticket) -> bool:
        stands = False
        for message in stream:
            if message is not None and not stands:
                stands = True
                self._stand(ticket)
            if stands:
                self._vigil.listen()
            for event in message.events if message is not None else ():
                if self._cursor.advance(event.sequence):
                    self._events.hear(ticket, event)
        return stands

    def _stand(self, ticket: Ticket) -> None:
        """The stream stands: work may begin, after a reset that is owed."""
        if self._standing.reset_owed:
            era = self._standing.generation.era
            request = cache_pb2.ResetRequest(session_id=ticket.session_id)
            try:
                reply: cache_pb2.ResetResponse = self._calls.ask(
                    self._calls.cache.Reset, request, self._limit_s, ticket.boot_id
                )
            except KvstowError as error:
                _log.warning("the reset that is owed failed: %s", error)
                self._standing.lose(ticket)
                return
            self._standing.end_reset(era, reply.result.generation)
        self._standing.set_state(ticket, SessionState.OPEN)

    def _cancel_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
