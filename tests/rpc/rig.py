"""A daemon behind a real Unix socket, and engines that speak to it in plain protobuf."""

import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from kvstow.server.config import Config
from kvstow.server.daemon import Daemon
from kvstow.server.device.host import HostDevice
from kvstow.server.device.pool import HostPool
from kvstow.server.rpc.options import ServerOptions
from kvstow.server.rpc.server import RpcServer
from kvstow.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    cache_pb2,
    cache_pb2_grpc,
    debug_pb2_grpc,
    errors_pb2,
    identity_pb2,
)
from rpc.refusing import RefusingDevice
from rpc.showing import showing
from support.checking import checked_books
from support.memory import shared_directory
from support.waiting import DEADLINE_S

PATIENCE_S = DEADLINE_S
KEY_BYTES = 8
BLOCK_BYTES = 256
BLOCK_COUNT = 8


def config(**settings: Any) -> Config:
    """Small bounds, so that tests reach them."""
    small: dict[str, Any] = {
        "pool_size": 1 << 16,
        "extent_size": 1 << 12,
        "max_sessions": 3,
        "max_spaces": 2,
        "max_keys": 16,
        "max_transfers": 2,
        "max_leases": 2,
        "session_grace_s": 3600,
    }
    return Config(**(small | settings))


@dataclass
class Served:
    """A daemon, its server and the stubs of a client."""

    daemon: Daemon
    server: RpcServer
    faults: RefusingDevice
    socket: Path
    channel: grpc.Channel
    observed: list[tuple[str, str, float]]
    bugs: list[tuple[str, BaseException]]
    port: int
    memory: Path
    cache: cache_pb2_grpc.CacheServiceStub = field(init=False)
    admin: admin_pb2_grpc.AdminServiceStub = field(init=False)
    debug: debug_pb2_grpc.DebugServiceStub = field(init=False)

    def __post_init__(self) -> None:
        self.cache = cache_pb2_grpc.CacheServiceStub(self.channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self.channel)
        self.debug = debug_pb2_grpc.DebugServiceStub(self.channel)

    def method(self, name: str) -> Any:
        """The stub's method, whichever service has it."""
        services = {"CacheService": self.cache, "AdminService": self.admin}
        service, method = name.split("/")
        return getattr(services[service], method)

    def books(self) -> list[object]:
        """Everything an administrator sees but the ages, after a check of the books."""
        assert self.admin.CheckLedger(admin_pb2.CheckLedgerRequest()).ok
        sessions = self.admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions
        transfers = self.admin.ListTransfers(admin_pb2.ListTransfersRequest()).transfers
        leases = self.admin.ListLeases(admin_pb2.ListLeasesRequest()).leases
        for aging in (*sessions, *transfers):
            aging.ClearField("age_s")
        for lease in leases:
            lease.ClearField("remaining_s")
        spaces = self.admin.ListSpaces(admin_pb2.ListSpacesRequest()).spaces
        stats = self.admin.GetStats(admin_pb2.GetStatsRequest())
        return [list(sessions), list(transfers), list(leases), list(spaces), stats]


@contextmanager
def served(
    settings: Config | None = None,
    *,
    ready: bool = True,
    debug: bool = True,
    tcp: str | None = None,
    worker_count: int = 16,
    daemon_class: type[Daemon] = Daemon,
    token: str = "",
    **options: Any,
) -> Iterator[Served]:
    """Serve a daemon for the time of a `with` block; afterwards its books must be in order.

    Args:
        token: what the stubs show; empty for none.
        options: of the server.
    """
    settings = settings or config()
    observed: list[tuple[str, str, float]] = []
    bugs: list[tuple[str, BaseException]] = []
    with shared_directory() as directory, ExitStack() as stack:
        socket = directory / "kvstow.sock"
        pool = HostPool(settings.pool_size)
        stack.callback(pool.close)
        faults = RefusingDevice(HostDevice(pool))
        with checked_books():
            daemon = daemon_class(settings, faults)
        server = RpcServer(
            daemon,
            ServerOptions(socket, tcp, settings.max_sessions, worker_count, **options),
            observe=lambda *call: observed.append(call),
            report_bug=lambda *bug: bugs.append(bug),
            faults=faults if debug else None,
        )
        stack.callback(server.stop, 0)
        daemon.start()
        stack.callback(daemon.close)
        port = server.start()
        if ready:
            daemon.set_ready()
        with grpc.insecure_channel(f"unix:{socket}") as bare:
            channel = showing(bare, token) if token else bare
            yield Served(daemon, server, faults, socket, channel, observed, bugs, port, directory)
        daemon.check()
    assert daemon.health.bug_count == 0


def metadata(call: object) -> dict[str, str | bytes]:
    """What came with the end of a call."""
    assert isinstance(call, grpc.Call)
    return dict(call.trailing_metadata())


def refused(call: grpc.RpcError) -> tuple[str, str, dict[str, str]]:
    """Code, reason and facts of a refusal."""
    assert isinstance(call, grpc.Call)
    details = metadata(call).get("grpc-status-details-bin", b"")
    assert isinstance(details, bytes)
    status = errors_pb2.Status.FromString(details)
    if not status.details:
        return call.code().name, "", {}
    info = errors_pb2.ErrorInfo.FromString(status.details[0].value)
    return call.code().name, info.reason, dict(info.metadata)


def identity(model: str = "model", world_size: int = 1) -> identity_pb2.Identity:
    return identity_pb2.Identity(
        model=model,
        layout=identity_pb2.Layout(
            dtype="float32",
            block_tokens=16,
            world_size=world_size,
            groups=[identity_pb2.Group(segment_bytes=[BLOCK_BYTES])],
        ),
        key_scheme=identity_pb2.KeyScheme(hash_name="test", key_bytes=KEY_BYTES),
    )


def key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES, "big")


def keys(numbers: Sequence[int], group: int = 0) -> list[cache_pb2.GroupKeys]:
    return [cache_pb2.GroupKeys(group=group, keys=b"".join(map(key, numbers)))]


def blocks(
    numbers: Sequence[int], ids: Sequence[int] | None = None, group: int = 0
) -> list[cache_pb2.GroupBlocks]:
    """Keys and block ids; without ids block i goes with the i-th key."""
    found = range(len(numbers)) if ids is None else ids
    packed = b"".join(map(key, numbers))
    return [cache_pb2.GroupBlocks(group=group, keys=packed, blocks=found)]


class Engine:
    """An engine with one memory file per rank: a session, its memory, and its stream if asked for.

    Args:
        served: the daemon.
        model: names its space.
        world_size: number of ranks.
        attached: whether its ranks attach at once.
    """

    def __init__(
        self,
        served: Served,
        model: str = "model",
        *,
        world_size: int = 1,
        attached: bool = True,
    ) -> None:
        self._served = served
        opened = served.cache.OpenSession(
            cache_pb2.OpenSessionRequest(identity=identity(model, world_size), name="engine")
        )
        self.session_id = opened.session_id
        self.generation = opened.generation
        self.space_id = opened.space_id
        self.reports: queue.Queue[cache_pb2.Event] = queue.Queue()
        self.files = [
            served.memory / f"memory-{self.session_id}-{rank}" for rank in range(world_size)
        ]
        for rank, file in enumerate(self.files):
            file.write_bytes(bytes([rank + 1]) * (BLOCK_BYTES * BLOCK_COUNT))
            if attached:
                served.cache.AttachMemory(self.attach_request(rank))

    def attach_request(
        self, rank: int = 0, file: Path | None = None, block_count: int = BLOCK_COUNT
    ) -> cache_pb2.AttachMemoryRequest:
        shared = cache_pb2.SharedMemory(
            path=str(file or self.files[rank]), size_bytes=BLOCK_BYTES * BLOCK_COUNT
        )
        memory = cache_pb2.GroupMemory(
            block_count=block_count,
            segments=[cache_pb2.Segment(region=0, stride_bytes=BLOCK_BYTES)],
        )
        return cache_pb2.AttachMemoryRequest(
            session_id=self.session_id,
            rank=rank,
            regions=[cache_pb2.Region(shared_memory=shared)],
            groups=[memory],
        )

    def watch(self) -> Any:
        """Open the stream, and read it on a thread; returns when it stands."""
        stream = self._served.cache.Watch(cache_pb2.WatchRequest(session_id=self.session_id))
        next(stream)
        threading.Thread(target=self._read, args=[stream], daemon=True).start()
        return stream

    def lookup_request(self, numbers: Sequence[int], **options: Any) -> cache_pb2.LookupRequest:
        return cache_pb2.LookupRequest(
            session_id=self.session_id,
            generation=self.generation,
            groups=keys(numbers),
            **options,
        )

    def store_request(
        self, transfer_id: int, numbers: Sequence[int], **options: Any
    ) -> cache_pb2.StoreRequest:
        return cache_pb2.StoreRequest(
            session_id=self.session_id,
            transfer_id=transfer_id,
            **{"generation": self.generation, "groups": blocks(numbers)} | options,
        )

    def load_request(
        self, transfer_id: int, numbers: Sequence[int], **options: Any
    ) -> cache_pb2.LoadRequest:
        return cache_pb2.LoadRequest(
            session_id=self.session_id,
            transfer_id=transfer_id,
            **{"generation": self.generation, "groups": blocks(numbers)} | options,
        )

    def store(self, transfer_id: int, numbers: Sequence[int]) -> cache_pb2.TransferEnded:
        """Store and wait for the report; needs the stream."""
        self._served.cache.Store(self.store_request(transfer_id, numbers))
        return self.report()

    def report(self) -> cache_pb2.TransferEnded:
        """The next report of a transfer; what else happened before it is skipped."""
        while True:
            event = self.reports.get(timeout=PATIENCE_S)
            if event.WhichOneof("kind") == "transfer_ended":
                return event.transfer_ended

    def _read(self, stream: Any) -> None:
        try:
            for message in stream:
                for event in message.events:
                    self.reports.put(event)
        except grpc.RpcError:
            return
