"""The health service alone, on a TCP port: for probes that cannot reach the Unix socket, such as a kubelet's.

It shows whether the daemon serves and nothing else, so it needs neither encryption nor a name for who asks. `Watch` is
left out: a probe asks once, and a stream would keep a thread. Who promises a request and sends none keeps a thread for
REQUEST_S at most, since a probe that fails for want of threads ends the daemon.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2  # type: ignore[import-untyped]

from .addresses import check_free
from .calls import Handler

REQUEST_S = 1.0
_THREADS = 16
_CONNECTIONS = 256


class ProbePort:
    """Answers `grpc.health.v1.Health/Check` on an address of its own.

    Args:
        health_servicer: whose answers it gives.
        address: host and port; port 0 takes a free one.

    Raises:
        OSError: the address is taken or does not exist.
    """

    def __init__(self, health_servicer: health.HealthServicer, address: str) -> None:
        check_free(address)
        self._health = health_servicer
        # As a stream of requests: of such a call the thread decides how long it waits for the one.
        check: Handler = grpc.stream_unary_rpc_method_handler(
            self._check, None, health_pb2.HealthCheckResponse.SerializeToString
        )
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="probes"),
            [grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": check})],
            options=(
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", 4096),
                ("grpc.server_handshake_timeout_ms", 2_000),
                ("grpc.max_allowed_incoming_connections", _CONNECTIONS),
            ),
        )
        self.port: int = self._server.add_insecure_port(address)

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()

    def stop(self) -> None:
        """Answer no more. May be called without `start`, and repeatedly."""
        self._server.stop(None)

    def _check(
        self, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        late = threading.Timer(REQUEST_S, context.cancel)
        late.daemon = True
        late.start()
        try:
            request = health_pb2.HealthCheckRequest.FromString(next(requests))
        except (StopIteration, DecodeError):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is no HealthCheckRequest")
        finally:
            late.cancel()
        return self._health.Check(request, context)
