"""A stand-in for the daemon that says what a test tells it to, for what a real one does too rarely.

It keeps the events of its session as the daemon does (with the daemon's own outbox), and holds,
refuses or counts calls; it copies nothing.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from client.stage import Answers, Stage
from kvstow.server.core import errors, events
from kvstow.server.core.types import TransferId, TransferKind, TransferState
from kvstow.server.rpc.calls import BOOT_ID_KEY
from kvstow.server.rpc.status import RefusalStatus
from kvstow.v1 import admin_pb2, admin_pb2_grpc, cache_pb2, cache_pb2_grpc, reset_pb2


class Double(cache_pb2_grpc.CacheServiceServicer, admin_pb2_grpc.AdminServiceServicer):
    """One daemon process with one session.

    Args:
        socket: where it listens.
        boot_id: names it.

    Attributes:
        calls: how often each method was called.
        requests: the last request of each method.
        session_id, generation, answers: what replies say.
        refusals: methods that are refused, and how.
        leases: leases taken and not released.
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
        self.answers = Answers()
        self.leases: set[int] = set()
        self._last_lease = 0
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
        found = [cache_pb2.GroupHits(hit_count=self.answers.hit_count) for _ in request.groups]
        return cache_pb2.LookupResponse(generation=self.generation, groups=found, lease_id=lease)

    def Store(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._enter("Store", request, context)
        count = sum(len(group.blocks) for group in request.groups)
        statuses = self.answers.status * count
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
        listed = [admin_pb2.Transfer(session_id=session) for session in self.answers.copying]
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
