"""The gRPC server: services, threads, sockets, health, and an orderly stop.

Each open stream occupies a thread, so there are as many threads as sessions and some for the other
calls. Decided here: how the server is reached and how it notices a peer that is gone. Not decided
here: when it is ready (`set_ready`) and when it stops (`stop`); the main thread says so.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
    reflection,
    reflection_pb2_grpc,
)

from kvstow.server.daemon import Daemon
from kvstow.server.daemon.health import Status
from kvstow.server.device.faults import FaultyDevice
from kvstow.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    cache_pb2,
    cache_pb2_grpc,
    debug_pb2,
    debug_pb2_grpc,
)

from .addresses import check_free
from .admin import AdminServicer
from .calls import CallInterceptor, Observe, ReportBug
from .certificates import Certificates, Pem, port_credentials
from .debug import DebugServicer
from .gate import Gate
from .health_watches import BoundedHealth
from .open_calls import OpenCalls
from .options import ServerOptions
from .reflecting import BoundedReflection
from .servicer import CacheServicer, Waits
from .unix_socket import SocketError, SocketPath, private_files

READINESS = ""
"""Health of the whole server: SERVING while it takes work."""

LIVENESS = "liveness"
"""SERVING until the daemon has found a bug of its own, after which another should take over."""

DEVICE = "device"
"""SERVING while no copy runs past its deadline and every device answers. Each has a name of its own behind a slash:
`device/host`, or the UUID of a GPU."""

MESSAGE_BYTES = 8 << 20
MESSAGE_BYTES_PER_KEY = 80
"""The largest message holds as many keys as a call may, with their block ids, and much besides."""

_CACHE = cache_pb2.DESCRIPTOR.services_by_name["CacheService"].full_name
_ADMIN = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name
_DEBUG = debug_pb2.DESCRIPTOR.services_by_name["DebugService"].full_name

CHANNEL_OPTIONS: Sequence[tuple[str, int]] = (
    # A peer that neither answers nor closes (stopped, say) is dropped within 15 s, and with it its
    # stream. The last timeout is that of pings gRPC sends for its own ends: while one is unanswered
    # (a minute, by default) no other is sent. Peers may ask us every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    # Two daemons never share a port.
    ("grpc.so_reuseport", 0),
    # Who connects and says nothing is dropped.
    ("grpc.server_handshake_timeout_ms", 10_000),
)

CONNECTIONS_PER_SESSION = 16
"""An engine has one for its scheduler and one for each rank; on the average of all it may have so many."""

STREAMS_PER_THREAD = 4
"""Calls that one connection may have open. Far more than a client needs: at the limit gRPC refuses some at random."""

CALLS_PER_THREAD = 16
"""Calls that may be open or wait for a thread, from all connections; gRPC itself refuses further ones, without a thread."""


class RpcServer:
    """Serves one daemon.

    Args:
        daemon: the daemon.
        options: how it is reached.
        observe: told of each call that ended.
        report_bug: told of each exception that is no refusal.
        faults: driven by the debug service; None: the service is off.
    """

    def __init__(
        self,
        daemon: Daemon,
        options: ServerOptions,
        *,
        observe: Observe,
        report_bug: ReportBug,
        faults: FaultyDevice | None = None,
    ) -> None:
        self._options = options
        self._socket = (
            None
            if options.socket_path is None
            else SocketPath(options.socket_path, options.permissions)
        )
        self._open_calls = OpenCalls(options.shares)
        self._certificate = None if options.certificates is None else options.certificates.content
        max_keys = daemon.info().limits.max_keys_per_call
        gate = Gate(options.access, self._open_calls, daemon.tenant_of)
        longest = MESSAGE_BYTES + MESSAGE_BYTES_PER_KEY * max_keys
        self._server = grpc.server(
            ThreadPoolExecutor(options.thread_count, thread_name_prefix="rpc"),
            interceptors=[CallInterceptor(daemon.boot_id, observe, report_bug, gate)],
            options=(*CHANNEL_OPTIONS, *_bounds(options, longest)),
            maximum_concurrent_rpcs=CALLS_PER_THREAD * options.thread_count,
        )
        self.health = BoundedHealth(_connections(options))
        self._add_services(daemon, faults)

    def start(self) -> int:
        """Listen and answer; health says that the process lives and is not ready.

        Returns the TCP port, 0 if none.

        Raises:
            SocketError: the socket or the address is taken or cannot be made.
        """
        self.set_ready(False)
        self.set_live(True)
        self._set_health(DEVICE, True)
        port = 0
        if self._socket is not None:
            self._socket.claim()
            with private_files():
                self._bind(self._socket.target, None)
            self._socket.open_up()
        if self._options.tcp_address is not None:
            self._check_free(self._options.tcp_address)
            port = self._bind(self._options.tcp_address, self._options.certificates)
        self._server.start()
        return port

    def set_ready(self, ready: bool) -> None:
        """Say whether the daemon takes work."""
        self._set_health(READINESS, ready)

    def set_live(self, live: bool) -> None:
        """Say whether the daemon can be relied on."""
        self._set_health(LIVENESS, live)

    def set_devices(self, status: Status) -> None:
        """Say whether copies end in their time, and which device does not answer."""
        devices = {device.device: device.healthy for device in status.devices}
        self._set_health(DEVICE, status.stuck_count == 0 and all(devices.values()))
        for device, healthy in devices.items():
            self._set_health(f"{DEVICE}/{device}", healthy)

    def refresh(self) -> Pem | None:
        """Read tokens and certificates again if their files have changed, and end calls that are not permitted any more,
        or whose request does not come; returns the certificates if they are others than the last time.
        """
        access, certificates = self._options.access, self._options.certificates
        if access.tokens is not None:
            access.tokens.refresh()
        self._open_calls.end_stale(access.is_valid)
        if certificates is None:
            return None
        certificates.refresh()
        before, self._certificate = self._certificate, certificates.content
        return None if before is self._certificate else self._certificate

    def stop(self, grace_s: float) -> None:
        """Take no new call, give running ones `grace_s`, and return when all have ended.

        The socket is gone then and its path is free for another process. May be called without
        `start`, and repeatedly.
        """
        self.health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait()
        if self._socket is not None:
            self._socket.release()

    def _add_services(self, daemon: Daemon, faults: FaultyDevice | None) -> None:
        waits = Waits(self._options.worker_count // 2)
        names = [_CACHE, _ADMIN, health.SERVICE_NAME, reflection.SERVICE_NAME]
        cache = CacheServicer(daemon, waits)
        cache_pb2_grpc.add_CacheServiceServicer_to_server(cache, self._server)
        admin = AdminServicer(daemon, waits, self._options.settings)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, self._server)
        if faults is not None:
            debug_pb2_grpc.add_DebugServiceServicer_to_server(DebugServicer(faults), self._server)
            names.append(_DEBUG)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        if self._options.reflection:
            reflecting = BoundedReflection(names, self._options.worker_count // 4)
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflecting, self._server)

    def _set_health(self, service: str, well: bool) -> None:
        status = health_pb2.HealthCheckResponse
        self.health.set(service, status.SERVING if well else status.NOT_SERVING)

    def _check_free(self, address: str) -> None:
        try:
            check_free(address)
        except OSError as error:
            self.stop(0)
            raise SocketError(
                f"cannot listen on {address}: {error.strerror}; set listen"
            ) from error

    def _bind(self, target: str, certificates: Certificates | None) -> int:
        try:
            if certificates is None:
                return self._server.add_insecure_port(target)
            credentials = port_credentials(certificates, self._options.known_clients)
            return self._server.add_secure_port(target, credentials)
        except RuntimeError as error:
            self.stop(0)
            raise SocketError(f"cannot listen on {target}: {error}") from error


def _bounds(options: ServerOptions, longest: int) -> Sequence[tuple[str, int]]:
    """What a peer may take of the server; each address has its connections for itself."""
    return (
        ("grpc.max_receive_message_length", longest),
        ("grpc.max_concurrent_streams", STREAMS_PER_THREAD * options.thread_count),
        ("grpc.max_allowed_incoming_connections", _connections(options)),
    )


def _connections(options: ServerOptions) -> int:
    return options.worker_count + CONNECTIONS_PER_SESSION * options.max_sessions
