"""Reflection that cannot take the server's threads away: each of its streams keeps one for as long as it is open."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]


class BoundedReflection(reflection.ReflectionServicer):  # type: ignore[misc]
    """Tells clients which services there are, so many of them at a time.

    Args:
        names: of the services.
        stream_count: streams that may be open.
    """

    def __init__(self, names: Iterable[str], stream_count: int) -> None:
        super().__init__(names)
        self._free = threading.BoundedSemaphore(stream_count)

    def ServerReflectionInfo(
        self, request_iterator: Iterator[Any], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        """Answer until the client has asked everything; refused with RESOURCE_EXHAUSTED if too many streams are open."""
        if not self._free.acquire(blocking=False):
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "too many reflection streams; close one"
            )
        try:
            yield from super().ServerReflectionInfo(request_iterator, context)
        finally:
            self._free.release()
