"""One Watch call: its messages in order, how far they were heard, and the acknowledgement of that.

gRPC's iterator can wait only for ever, so a thread of its own reads it into a short queue. The
queue is short so that a slow listener slows the daemon down, whose memory of events is bounded and
who says when it dropped any.
"""

import logging
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc

from kvstow.v1 import cache_pb2

from .calls import Calls
from .errors import KvstowError, error_of
from .standing import Ticket

ACKNOWLEDGE_EVERY = 256
IDLE_S = 0.1
"""How long nothing comes before what was heard is acknowledged, however little it is."""

BEAT_S = 0.5
"""How long nothing comes before that is said."""

_ACKNOWLEDGE_LIMIT_S = 5.0
_QUEUED_MESSAGES = 16
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Cursor:
    """How far the events of one opening of a session were heard.

    Attributes:
        heard: sequence number of the last one.
        acknowledged: sequence number up to which the daemon was told so.
        every: events after which it is told at the latest.
    """

    heard: int = 0
    acknowledged: int = 0
    every: int = ACKNOWLEDGE_EVERY

    def advance(self, sequence: int) -> bool:
        """Hear an event; False if it was heard before, on a stream that broke."""
        if sequence <= self.heard:
            return False
        if sequence != self.heard + 1:
            _log.error("events %d to %d never came", self.heard + 1, sequence - 1)
        self.heard = sequence
        return True


class EventStream:
    """Reads a session's stream, behind the last event heard.

    Args:
        cursor: of the session's opening; advanced by whoever hears the events.
    """

    def __init__(self, calls: Calls, ticket: Ticket, cursor: Cursor) -> None:
        self._calls = calls
        self._ticket = ticket
        self._cursor = cursor
        self._messages: queue.Queue[cache_pb2.WatchResponse | None] = queue.Queue(_QUEUED_MESSAGES)
        self._call = calls.watch(ticket.session_id, cursor.heard, ticket.boot_id)
        # Whoever asks to resume behind an event has acknowledged it.
        cursor.acknowledged = cursor.heard

    def __iter__(self) -> Iterator[cache_pb2.WatchResponse | None]:
        """The messages, until the stream ends; None where nothing came for a while."""
        reader = threading.Thread(target=self._read, name="kvstow-stream", daemon=True)
        reader.start()
        while True:
            waiting = self._cursor.heard > self._cursor.acknowledged
            try:
                message = self._messages.get(timeout=IDLE_S if waiting else BEAT_S)
            except queue.Empty:
                if waiting:
                    self._acknowledge()
                yield None
                continue
            if message is None:
                break
            yield message
            if self._cursor.heard - self._cursor.acknowledged >= self._cursor.every:
                self._acknowledge()
        reader.join()

    def cancel(self) -> None:
        """End it from this side. May be called from any thread, and repeatedly."""
        if not self._calls.inherited:
            self._call.cancel()

    def error(self) -> KvstowError | None:
        """Once it has ended: why, None if the daemon ended it because the session was closed."""
        return None if self._call.code() is grpc.StatusCode.OK else error_of(self._call)

    def _read(self) -> None:
        try:
            for message in self._call:
                self._messages.put(message)
        except grpc.RpcError:
            pass  # `error` says why
        self._messages.put(None)

    def _acknowledge(self) -> None:
        self._cursor.acknowledged = self._cursor.heard
        request = cache_pb2.AcknowledgeRequest(
            session_id=self._ticket.session_id, sequence=self._cursor.heard
        )
        acknowledge: Any = self._calls.cache.Acknowledge
        self._calls.tell(acknowledge, request, self._ticket.boot_id, _ACKNOWLEDGE_LIMIT_S)
