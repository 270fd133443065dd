"""What a call passes before its method sees it: who makes it, whether it may, and its request.

Every method is served as one that takes a stream of requests. Of such a call the server looks at who makes it before it
waits for the request; for any other it would keep a thread until the request has come, whoever promised to send one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from kvstow.server.core.errors import InvalidRequest, Refusal
from kvstow.v1 import admin_pb2, cache_pb2

from .access import Access, require_own, require_role
from .alarm import Alarm
from .callers import CALLER, Caller
from .open_calls import OpenCalls
from .status import NotPermitted

Decode = Callable[[bytes], Any]

NAMING_A_SESSION = frozenset(
    f"/{service.full_name}/{method.name}"
    for file in (cache_pb2, admin_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if "session_id" in method.input_type.fields_by_name
)
"""Methods whose request names a session."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one server.

    Args:
        access: who may call what.
        open_calls: how many calls are open, and whose.
        tenant_of: whose a session is; None if there is none.
        alarm: told of callers that are refused.
    """

    access: Access
    open_calls: OpenCalls
    tenant_of: Callable[[int], str | None]
    alarm: Alarm = field(default_factory=Alarm)

    @contextmanager
    def passed(
        self,
        method: str,
        requests: Iterator[bytes],
        context: grpc.ServicerContext,
        decode: Decode | None,
    ) -> Iterator[Any]:
        """Encloses a call that may be made; gives its request, or, without `decode`, the stream of its requests.

        Raises:
            Unauthenticated, NotPermitted, TooManyCalls: it may not.
            InvalidRequest: what has come is no request.
            grpc.RpcError: the client is gone.
        """
        caller = None
        try:
            caller = self.access.caller(method, context.invocation_metadata(), context.peer())
            if caller is not None:
                require_role(caller, method)
            number, call = self.open_calls.enter(caller, context)
        except Refusal as refusal:
            self._tell(refusal, method, context, caller)
            raise
        try:
            request = requests if decode is None else _received(requests, decode)
            call.received()
            if caller is not None:
                CALLER.set(caller)
            yield request
        except NotPermitted as refusal:  # what is asked for is another's
            self._tell(refusal, method, context, caller)
            raise
        finally:
            self.open_calls.leave(number)

    def _tell(
        self,
        refusal: Refusal,
        method: str,
        context: grpc.ServicerContext,
        caller: Caller | None,
    ) -> None:
        name = "" if caller is None else caller.name
        self.alarm.refused(refusal, method, context.peer(), name)

    def require_own_session(self, method: str, request: Any) -> None:
        """Refuse a session that is not the caller's.

        Raises:
            NoSuchSession: it is another tenant's, or nobody's.
        """
        if method in NAMING_A_SESSION:
            require_own(CALLER.get(), request.session_id, self.tenant_of)


def _received(requests: Iterator[bytes], decode: Decode) -> Any:
    """The one request of a call."""
    try:
        return decode(next(requests))
    except StopIteration:
        raise InvalidRequest("the call has no request") from None
    except DecodeError:
        raise InvalidRequest("the request cannot be decoded") from None
