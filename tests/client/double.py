"""A stand-in for the daemon that says what a test tells it to, for what a real one does too rarely.

It keeps the events of its session as the daemon does (with the daemon's own outbox), and holds,
refuses or counts calls; it copies nothing.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from kvstow.server.core import errors, events
from kvstow.server.core.outbox import Outbox
from kvstow.server.core.types import TransferId, TransferKind, TransferState
from kvstow.server.rpc import replies
from kvstow.server.rpc.calls import BOOT_ID_KEY
from kvstow.server.rpc.status import RefusalStatus
from kvstow.v1 import admin_pb2, admin_pb2_grpc, cache_pb2, cache_pb2_grpc, reset_pb2
from support.waiting import DEADLINE_S

MAX_MESSAGE_EVENTS = 64


class Double(cache_pb2_grpc.CacheServiceServicer, admin_pb2_grpc.AdminServiceServicer):
    """One daemon process with one session.

    Args:
        socket: where it listens.
        boot_id: names it.

    Attributes:
        calls: how often each method was called.
        requests: the last request of each method.
        session_id, generation, hit_count, status: what replies say.
        refusals: methods that are refused, and how.
        leases: leases taken and not released.
        copying: sessions whose copies still run.
        stage: everything else that a test may want.
    """

    def __init__(self, socket: Path, boot_id: str = "first") -> None:
        self.boot_id = boot_id
        self.calls: Counter[str] = Counter()
        self._counting = threading.Lock()
        self.requests: dict[str, Any] = {}
        self.refusals: dict[str, errors.Refusal] = {}
        self.session_id = 0
        self.generation = 1
        self.hit_count = 1
        self.status = "A"
        self.leases: set[int] = set()
        self._last_lease = 0
        self.copying: list[int] = []
        self.stage = Stage()
        self._server = grpc.server(ThreadPoolExecutor(32, thread_name_prefix="double"))
        cache_pb2_grpc.add_CacheServiceServicer_to_server(self, self._server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def stop(self) -> None:
        """Be gone, as after a kill: from one moment to the next it answers nothing more."""
        self._server.stop(0).wait()
        self.stage.end_stream()

    def end(self, transfer: int, state: TransferState = TransferState.DONE) -> None:
        """Report the end of a transfer."""
        report = events.TransferEnded(TransferId(transfer), TransferKind.STORE, state)
        self.stage.tell(report)

    # The services.

    def GetServerInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("GetServerInfo", request, context)
        limits = cache_pb2.Limits(max_transfers_per_session=self.stage.max_transfers)
        return cache_pb2.GetServerInfoResponse(boot_id=self.boot_id, limits=limits)

    def OpenSession(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("OpenSession", request, context)
        self.session_id += 1
        self.stage.open()
        return cache_pb2.OpenSessionResponse(
            session_id=self.session_id, boot_id=self.boot_id, generation=self.generation
        )

    def CloseSession(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("CloseSession", request, context)
        self.stage.end_stream()
        return cache_pb2.CloseSessionResponse()

    def AttachMemory(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("AttachMemory", request, context)
        return cache_pb2.AttachMemoryResponse()

    def DetachMemory(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("DetachMemory", request, context)
        return cache_pb2.DetachMemoryResponse(drained=True)

    def Lookup(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Lookup", request, context)
        with self._counting:
            self._last_lease += 1
            lease = self._last_lease
        self.leases.add(lease)
        found = [cache_pb2.GroupHits(hit_count=self.hit_count) for _ in request.groups]
        return cache_pb2.LookupResponse(generation=self.generation, groups=found, lease_id=lease)

    def Store(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Store", request, context)
        count = sum(len(group.blocks) for group in request.groups)
        statuses = self.status * count
        return cache_pb2.StoreResponse(statuses=statuses, accepted_count=statuses.count("A"))

    def Load(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Load", request, context)
        return cache_pb2.LoadResponse()

    def Release(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Release", request, context)
        self.leases.difference_update(request.lease_ids)
        return cache_pb2.ReleaseResponse()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Cancel", request, context)
        return cache_pb2.CancelResponse()

    def Reset(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Reset", request, context)
        self.generation += 1
        return cache_pb2.ResetResponse(
            result=reset_pb2.ResetResult(generation=self.generation, drained=True)
        )

    def Acknowledge(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Acknowledge", request, context)
        self.stage.acknowledge(request.sequence)
        return cache_pb2.AcknowledgeResponse()

    def Watch(
        self, request: Any, context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.WatchResponse]:
        self._enter("Watch", request, context)
        return self.stage.watch(request.after, self.boot_id, context)

    def ListTransfers(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("ListTransfers", request, context)
        listed = [admin_pb2.Transfer(session_id=session) for session in self.copying]
        return admin_pb2.ListTransfersResponse(transfers=listed, total_count=len(listed))

    def _enter(self, method: str, request: Any, context: grpc.ServicerContext) -> None:
        boot_id = (BOOT_ID_KEY, self.boot_id)
        with self._counting:
            self.requests[method] = request
            self.calls[method] += 1
        self.stage.wait_if_held(method)
        if refusal := self.refusals.get(method):  # a test may take it back meanwhile
            context.abort_with_status(RefusalStatus(refusal, boot_id))
        if self.stage.breaks(method):
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")
        context.set_trailing_metadata((boot_id,))


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
