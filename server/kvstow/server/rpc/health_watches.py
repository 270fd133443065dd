"""The health service, with a bound for those who watch it: a watch keeps no thread, and is kept in memory until it ends."""

import threading
from collections.abc import Callable

import grpc
from grpc_health.v1 import health, health_pb2  # type: ignore[import-untyped]


class BoundedHealth(health.HealthServicer):  # type: ignore[misc]
    """Answers how the daemon is, and tells of changes, to so many at a time.

    Args:
        watch_count: watches that may be open.
    """

    def __init__(self, watch_count: int) -> None:
        super().__init__()
        self._free = threading.BoundedSemaphore(watch_count)

    def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.ServicerContext,
        send_response_callback: Callable[[health_pb2.HealthCheckResponse | None], None],
    ) -> None:
        """Tell of changes until the client has gone; refused with RESOURCE_EXHAUSTED if too many watch."""
        if not self._free.acquire(blocking=False):
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "too many watch the health; close one"
            )
        if not context.add_callback(self._free.release):
            self._free.release()
        super().Watch(request, context, send_response_callback)
