"""The health service alone, on a TCP port: for probes that cannot reach the Unix socket, such as a kubelet's.

It shows whether the daemon serves and nothing else, so it needs neither encryption nor a name for who asks. `Watch` is
left out: a probe asks once, and a stream would keep a thread.
"""

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

_THREADS = 2


class ProbePort:
    """Answers `grpc.health.v1.Health/Check` on an address of its own.

    Args:
        health_servicer: whose answers it gives.
        address: host and port; port 0 takes a free one.

    Raises:
        RuntimeError: the address is taken or does not exist.
    """

    def __init__(self, health_servicer: health.HealthServicer, address: str) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="probes"),
            options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 4096)),
        )
        health_pb2_grpc.add_HealthServicer_to_server(_CheckOnly(health_servicer), self._server)
        self.port: int = self._server.add_insecure_port(address)

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()

    def stop(self) -> None:
        """Answer no more. May be called without `start`, and repeatedly."""
        self._server.stop(None)


class _CheckOnly(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    def __init__(self, health_servicer: health.HealthServicer) -> None:
        self._health = health_servicer

    def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> health_pb2.HealthCheckResponse:
        return self._health.Check(request, context)
