"""The engine's service: each method makes its request a call of the daemon, its answer a reply.

Nothing is decided here but which thread waits: a call may wait at most MAX_WAIT_S, and only so
many at a time that others still find a thread. Methods run on the server's threads, unlocked.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import grpc

from kvstow.server.core import events
from kvstow.server.core.errors import NoSuchSession, ShuttingDown
from kvstow.server.core.requests import StreamEnd
from kvstow.server.core.types import LeaseId, SessionId, TransferId
from kvstow.server.daemon import Daemon
from kvstow.server.daemon.watch import Watcher
from kvstow.v1 import cache_pb2, cache_pb2_grpc

from . import convert, replies
from .access import require_tenant
from .callers import CALLER
from .status import StreamReplaced

MAX_WAIT_S = 60.0
"""Longest time for which one call keeps a thread waiting."""

MAX_MESSAGE_EVENTS = 64
MAX_STREAM_MESSAGE_BYTES = 1 << 20
"""Reports that name very many failed blocks travel alone when together they exceed this."""

_IDLE_S = 3600.0


class Waits:
    """Lets at most `limit` calls wait at a time; the others do not wait.

    Args:
        limit: calls that may wait.
    """

    def __init__(self, limit: int) -> None:
        self._free = threading.BoundedSemaphore(limit)

    @contextmanager
    def budget(self, wanted_s: float) -> Iterator[float]:
        """How long the call may wait, in seconds; its place is given back on exit."""
        if wanted_s == 0 or not self._free.acquire(blocking=False):
            yield 0.0
            return
        try:
            yield min(wanted_s, MAX_WAIT_S)
        finally:
            self._free.release()


class CacheServicer(cache_pb2_grpc.CacheServiceServicer):
    """See kvstow/v1/cache.proto for what each method promises.

    Args:
        daemon: the daemon.
        waits: shared by all services of the server.
    """

    def __init__(self, daemon: Daemon, waits: Waits) -> None:
        self._daemon = daemon
        self._waits = waits
        self._limits = daemon.info().limits

    def GetServerInfo(
        self, request: cache_pb2.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> cache_pb2.GetServerInfoResponse:
        return replies.server_info(self._daemon.info(), time.time(), CALLER.get().role)

    def OpenSession(
        self, request: cache_pb2.OpenSessionRequest, context: grpc.ServicerContext
    ) -> cache_pb2.OpenSessionResponse:
        named = convert.identity(request.identity)
        identity = replace(named, tenant=require_tenant(CALLER.get(), named.tenant))
        name = convert.text(request.name, "name")
        opened = self._daemon.open_session(identity, name, convert.process(request))
        return replies.opened_session(opened, self._daemon.boot_id)

    def CloseSession(
        self, request: cache_pb2.CloseSessionRequest, context: grpc.ServicerContext
    ) -> cache_pb2.CloseSessionResponse:
        self._daemon.close_session(SessionId(request.session_id))
        return cache_pb2.CloseSessionResponse()

    def AttachMemory(
        self, request: cache_pb2.AttachMemoryRequest, context: grpc.ServicerContext
    ) -> cache_pb2.AttachMemoryResponse:
        session = SessionId(request.session_id)
        layout = self._daemon.identity(session).layout
        memory = convert.rank_memory(request, layout, CALLER.get().memory_path)
        self._daemon.attach(session, request.rank, memory, convert.process(request))
        return cache_pb2.AttachMemoryResponse()

    def DetachMemory(
        self, request: cache_pb2.DetachMemoryRequest, context: grpc.ServicerContext
    ) -> cache_pb2.DetachMemoryResponse:
        with self._waits.budget(convert.seconds(request.wait_s, "wait_s")) as wait_s:
            drained = self._daemon.detach(SessionId(request.session_id), request.rank, wait_s)
        return cache_pb2.DetachMemoryResponse(drained=drained)

    def Lookup(
        self, request: cache_pb2.LookupRequest, context: grpc.ServicerContext
    ) -> cache_pb2.LookupResponse:
        session = SessionId(request.session_id)
        ttl_s = convert.capped_seconds(
            request.lease_ttl_s, "lease_ttl_s", self._limits.max_lease_ttl_s
        )
        result = self._daemon.lookup(
            session,
            request.generation,
            convert.group_keys(request.groups, self._key_bytes(session)),
            request=convert.text(request.request, "request"),
            hold=convert.hold(request.hold),
            ttl_s=ttl_s,
            touch=request.touch,
            want_states=request.want_states,
        )
        return replies.lookup(result, ttl_s)

    def Store(
        self, request: cache_pb2.StoreRequest, context: grpc.ServicerContext
    ) -> cache_pb2.StoreResponse:
        session = SessionId(request.session_id)
        groups = convert.group_blocks(request.groups, self._key_bytes(session))
        plan = self._daemon.store(
            session,
            request.generation,
            convert.transfer(request.transfer_id),
            groups,
            self._deadline_s(request.deadline_s),
            convert.fence(request),
        )
        return replies.store(plan)

    def Load(
        self, request: cache_pb2.LoadRequest, context: grpc.ServicerContext
    ) -> cache_pb2.LoadResponse:
        session = SessionId(request.session_id)
        groups = convert.group_blocks(request.groups, self._key_bytes(session))
        self._daemon.load(
            session,
            request.generation,
            convert.transfer(request.transfer_id),
            groups,
            convert.lease(request.lease_id),
            self._deadline_s(request.deadline_s),
            convert.fence(request),
        )
        return cache_pb2.LoadResponse()

    def Release(
        self, request: cache_pb2.ReleaseRequest, context: grpc.ServicerContext
    ) -> cache_pb2.ReleaseResponse:
        leases = [LeaseId(number) for number in request.lease_ids]
        count = self._daemon.release(SessionId(request.session_id), leases)
        return cache_pb2.ReleaseResponse(released_count=count)

    def Cancel(
        self, request: cache_pb2.CancelRequest, context: grpc.ServicerContext
    ) -> cache_pb2.CancelResponse:
        transfers = [TransferId(number) for number in request.transfer_ids]
        ended, abandoned = self._daemon.cancel(SessionId(request.session_id), transfers)
        return cache_pb2.CancelResponse(ended_count=ended, abandoned_count=abandoned)

    def Reset(
        self, request: cache_pb2.ResetRequest, context: grpc.ServicerContext
    ) -> cache_pb2.ResetResponse:
        with self._waits.budget(convert.seconds(request.wait_s, "wait_s")) as wait_s:
            result = self._daemon.reset(SessionId(request.session_id), wait_s)
        return cache_pb2.ResetResponse(result=replies.reset(result))

    def Watch(
        self, request: cache_pb2.WatchRequest, context: grpc.ServicerContext
    ) -> Iterator[cache_pb2.WatchResponse]:
        session = SessionId(request.session_id)
        stream = self._daemon.watch(session, request.after)
        if not context.add_callback(stream.close):
            stream.close()
        yield cache_pb2.WatchResponse(boot_id=self._daemon.boot_id)
        yield from self._messages(stream)
        _refuse_end(stream, session)

    def Acknowledge(
        self, request: cache_pb2.AcknowledgeRequest, context: grpc.ServicerContext
    ) -> cache_pb2.AcknowledgeResponse:
        self._daemon.acknowledge(SessionId(request.session_id), request.sequence)
        return cache_pb2.AcknowledgeResponse()

    def _key_bytes(self, session: SessionId) -> int:
        return self._daemon.identity(session).key_scheme.key_bytes

    def _deadline_s(self, wanted_s: float) -> float:
        return convert.capped_seconds(wanted_s, "deadline_s", self._limits.max_deadline_s)

    def _messages(self, stream: Watcher) -> Iterator[cache_pb2.WatchResponse]:
        while (batch := stream.next(_IDLE_S)) is not None:
            for start in range(0, len(batch), MAX_MESSAGE_EVENTS):
                yield from self._pack(batch[start : start + MAX_MESSAGE_EVENTS])

    def _pack(
        self, batch: Sequence[tuple[int, events.Event]]
    ) -> Iterator[cache_pb2.WatchResponse]:
        converted = [replies.event(sequence, happened) for sequence, happened in batch]
        together = cache_pb2.WatchResponse(boot_id=self._daemon.boot_id, events=converted)
        if together.ByteSize() <= MAX_STREAM_MESSAGE_BYTES:
            yield together
            return
        for one in converted:
            yield cache_pb2.WatchResponse(boot_id=self._daemon.boot_id, events=[one])


def _refuse_end(stream: Watcher, session: SessionId) -> None:
    """Say why a stream has ended, unless the session was closed."""
    match stream.end:
        case StreamEnd.REPLACED:
            raise StreamReplaced(f"session {session} has a newer stream", session=session)
        case StreamEnd.LOST:
            raise NoSuchSession(f"session {session} has ended", session=session)
        case StreamEnd.SHUTDOWN:
            raise ShuttingDown("the daemon has shut down")
