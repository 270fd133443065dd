"""What every call has in common: the boot id on both sides, refusals as statuses, measurement.

A client that names a daemon process in its metadata is answered by no other: after a restart
the same session id may be somebody else's.
An exception that is no refusal is a bug: it is reported under a correlation id, which the client
is told, and the server goes on.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, TypeAlias

import grpc

from kvstow.server.core.errors import BooksError, NoSuchSession, Refusal

from .access import ENDED_IS_FINE
from .gate import Decode, Gate
from .status import InternalError, RefusalStatus

BOOT_ID_KEY = "kvstow-boot-id"

Observe = Callable[[str, str, float], None]
"""Told of each call that ended: full method name, name of the canonical code, seconds it took. A
stream is one call, from its opening to its end. Called on the server's threads; must not block."""

ReportBug = Callable[[str, BaseException], None]
"""Told where an exception came from that is no refusal, and the exception."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_PREFIX = "/kvstow.v1."


class CallInterceptor(grpc.ServerInterceptor):
    """Wraps every method; those of health and reflection are neither addressed nor measured.

    Args:
        boot_id: sent as trailing metadata with every reply and refusal.
        observe: told of each call that ended.
        report_bug: told of each exception that is no refusal.
        gate: what each call passes first.
    """

    def __init__(self, boot_id: str, observe: Observe, report_bug: ReportBug, gate: Gate) -> None:
        self.metadata = (BOOT_ID_KEY, boot_id)
        self.observe = observe
        self.report_bug = report_bug
        self._gate = gate
        self._wrapped: dict[str, Handler] = {}

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """The wrapped method. Only methods that exist are remembered, so the table is bounded."""
        method = handler_call_details.method
        if method in self._wrapped:
            return self._wrapped[method]
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        wrap = self._wrap if method.startswith(_PREFIX) else self._wrap_foreign
        return self._wrapped.setdefault(method, wrap(method, handler))

    def _wrap(self, method: str, handler: Handler) -> Handler:
        decode, encode = handler.request_deserializer, handler.response_serializer
        assert decode is not None, f"{method} takes bytes"
        if handler.unary_unary is not None:
            unary = self._unary(method, handler.unary_unary, decode)
            return grpc.stream_unary_rpc_method_handler(unary, None, encode)
        assert handler.unary_stream is not None, f"{method} takes a stream"
        stream = self._stream(method, handler.unary_stream, decode)
        return grpc.stream_stream_rpc_method_handler(stream, None, encode)

    def _wrap_foreign(self, method: str, handler: Handler) -> Handler:
        """Methods of libraries: some take a stream, some answer by a callback; their attributes say so."""
        decode, encode = handler.request_deserializer, handler.response_serializer
        assert decode is not None, f"{method} takes bytes"
        if handler.unary_unary is not None:
            unary = self._foreign(method, handler.unary_unary, decode)
            return grpc.stream_unary_rpc_method_handler(unary, None, encode)
        if handler.unary_stream is not None:
            stream = self._foreign(method, handler.unary_stream, decode)
            return grpc.stream_stream_rpc_method_handler(stream, None, encode)
        assert handler.stream_stream is not None, f"{method} takes a stream and answers once"
        streams = self._foreign_streams(method, handler.stream_stream)
        return grpc.stream_stream_rpc_method_handler(streams, decode, encode)

    def _unary(
        self, method: str, inner: Callable[[Any, grpc.ServicerContext], Any], decode: Decode
    ) -> Callable[[Iterator[bytes], grpc.ServicerContext], Any]:
        def call(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            passed = self._gate.passed(method, requests, context, decode)
            with _Outcome(self, method, context), passed as request:
                self._require_addressed(context)
                try:
                    self._gate.require_own_session(method, request)
                except NoSuchSession:
                    if method not in ENDED_IS_FINE:
                        raise
                    return ENDED_IS_FINE[method]()
                return inner(request, context)

        return call

    def _stream(
        self,
        method: str,
        inner: Callable[[Any, grpc.ServicerContext], Iterator[Any]],
        decode: Decode,
    ) -> Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[Any]]:
        def call(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            passed = self._gate.passed(method, requests, context, decode)
            with _Outcome(self, method, context), passed as request:
                self._require_addressed(context)
                self._gate.require_own_session(method, request)
                yield from inner(request, context)

        return call

    def _foreign(
        self, method: str, inner: Callable[..., Any], decode: Decode
    ) -> Callable[..., Any]:
        @wraps(inner)
        def call(requests: Iterator[bytes], context: grpc.ServicerContext, *rest: Any) -> Any:
            try:
                with self._gate.passed(method, requests, context, decode) as request:
                    return inner(request, context, *rest)
            except Refusal as refusal:
                context.abort_with_status(RefusalStatus(refusal, self.metadata))

        return call

    def _foreign_streams(self, method: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            try:
                with self._gate.passed(method, requests, context, None) as stream:
                    yield from inner(stream, context)
            except Refusal as refusal:
                context.abort_with_status(RefusalStatus(refusal, self.metadata))

        return call

    def _require_addressed(self, context: grpc.ServicerContext) -> None:
        _, boot_id = self.metadata
        for key, value in context.invocation_metadata():
            if key == BOOT_ID_KEY and value != boot_id:
                raise NoSuchSession(
                    f"the call is meant for daemon process {value!r}, this is {boot_id}",
                    boot_id=boot_id,
                )


class _Outcome:
    """Encloses one call: ends it with a status, whatever it raises, and measures it."""

    __slots__ = ("_began", "_context", "_interceptor", "_method")

    def __init__(
        self, interceptor: CallInterceptor, method: str, context: grpc.ServicerContext
    ) -> None:
        self._interceptor = interceptor
        self._method = method
        self._context = context

    def __enter__(self) -> None:
        self._began = time.perf_counter()
        self._context.set_trailing_metadata((self._interceptor.metadata,))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        match error:
            case None:
                self._observe("OK")
            case Refusal():
                self._abort(error)
            case BooksError():  # the guard of the books has reported it
                self._abort(InternalError(str(error)))
            case grpc.RpcError():  # the client is gone, or too slow with its request
                self._observe("CANCELLED")
            case Exception():
                self._abort(self._report(error))
            case _:  # the server closes a stream whose reader is gone
                self._observe("CANCELLED")

    def _observe(self, code: str) -> None:
        self._interceptor.observe(self._method, code, time.perf_counter() - self._began)

    def _abort(self, refusal: Refusal) -> NoReturn:
        status = RefusalStatus(refusal, self._interceptor.metadata)
        self._observe(status.code.name)
        self._context.abort_with_status(status)

    def _report(self, error: Exception) -> InternalError:
        number = uuid.uuid4().hex[:12]
        self._interceptor.report_bug(f"{self._method}, correlation id {number}", error)
        return InternalError(f"internal error {number}", correlation_id=number)
