"""What the double of the daemon does besides answering, and what it answers."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import grpc

from kvstow.server.core import errors, events
from kvstow.server.core.outbox import Outbox
from kvstow.server.rpc import replies
from kvstow.server.rpc.calls import BOOT_ID_KEY
from kvstow.server.rpc.status import RefusalStatus
from kvstow.v1 import cache_pb2
from support.waiting import DEADLINE_S

MAX_MESSAGE_EVENTS = 64


@dataclass
class Answers:
    """What replies say, for tests to change.

    Args:
        hit_count: of each group of a lookup.
        status: of each block of a store, as a letter.
        copying: sessions whose copies still run.
    """

    hit_count: int = 1
    status: str = "A"
    copying: Sequence[int] = ()


class Stage:
    """What the double does besides answering: hold calls, break them off, and send events.

    Attributes:
        max_transfers: reports that may be unacknowledged.
        acknowledged: the highest sequence number that was.
        most_waiting: the most events that waited at a time.
    """

    def __init__(self) -> None:
        self.max_transfers = 4096
        self.acknowledged = 0
        self.most_waiting = 0
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._broken: set[str] = set()
        self._outbox = Outbox(1024)
        self._streams = 0
        self._ending: errors.Refusal | grpc.StatusCode | None = None

    @contextlib.contextmanager
    def held(self, method: str) -> Iterator[None]:
        """Calls of a method wait until the end of the block."""
        with self._changed:
            self._held.add(method)
        try:
            yield
        finally:
            self.let_go(method)

    def let_go(self, method: str) -> None:
        """Calls of a method wait no longer."""
        with self._changed:
            self._held.discard(method)
            self._changed.notify_all()

    def wait_if_held(self, method: str) -> None:
        """Wait while calls of the method are held."""
        with self._changed:
            assert self._changed.wait_for(lambda: method not in self._held, DEADLINE_S)

    def break_off(self, method: str) -> None:
        """The next call of a method breaks off without an answer."""
        self._broken.add(method)

    def breaks(self, method: str) -> bool:
        """Whether this call breaks off."""
        with self._changed:
            broken = method in self._broken
            self._broken.discard(method)
            return broken

    def open(self) -> None:
        """A session was opened: it has no events yet."""
        with self._changed:
            self._outbox = Outbox(1024)
            self.acknowledged = 0

    def tell(self, event: events.Event) -> None:
        """Put an event on the stream; waits, as an engine would, while the daemon keeps too many."""
        with self._changed:
            room = self._changed.wait_for(
                lambda: self._outbox.report_count < self.max_transfers, DEADLINE_S
            )
            assert room, "the reports are not acknowledged"
            self._outbox.put(event)
            self.most_waiting = max(self.most_waiting, len(self._outbox))
            self._changed.notify_all()

    def acknowledge(self, sequence: int) -> None:
        """Forget events."""
        with self._changed:
            self._outbox.acknowledge(sequence)
            self.acknowledged = max(self.acknowledged, sequence)
            self._changed.notify_all()

    @property
    def full(self) -> bool:
        """Whether as many reports wait as may."""
        return self._outbox.report_count >= self.max_transfers

    def end_stream(self, how: errors.Refusal | grpc.StatusCode | None = None) -> None:
        """End the stream: with OK, refused, or with a code that gRPC itself gives."""
        with self._changed:
            self._ending = how
            self._streams += 1
            self._changed.notify_all()

    def watch(
        self, after: int, boot_id: str, context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.WatchResponse]:
        """One stream, behind the event `after`."""
        self.acknowledge(after)
        with self._changed:
            self._streams += 1
            mine = self._streams
        context.add_callback(self._wake)
        yield cache_pb2.WatchResponse(boot_id=boot_id)
        while batch := self._next(after, mine, context):
            after = batch[-1][0]
            yield cache_pb2.WatchResponse(
                boot_id=boot_id, events=[replies.event(at, event) for at, event in batch]
            )
        match self._ending:
            case errors.Refusal() as refusal:
                context.abort_with_status(RefusalStatus(refusal, (BOOT_ID_KEY, boot_id)))
            case grpc.StatusCode() as code:
                context.abort(code, "the connection broke")

    def _next(
        self, after: int, stream: int, context: grpc.ServicerContext
    ) -> Sequence[tuple[int, events.Event]]:
        """The next events of a stream, none if it has ended."""

        def ended() -> bool:
            return self._streams != stream or not context.is_active()

        with self._changed:
            self._changed.wait_for(lambda: ended() or self._outbox.last > after)
            return [] if ended() else self._outbox.after(after, MAX_MESSAGE_EVENTS)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
