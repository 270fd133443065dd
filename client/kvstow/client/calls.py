"""The channel to the daemon, and the two ways to call over it.

`ask` gives a call a deadline and waits for its end: nothing can follow. `begin` and `answer` are
for the calls an engine waits for: the wait ends with the budget, the call does not, so that what
it did at the daemon becomes known all the same. Every call names the daemon process that it is
meant for, and an answer of another one is an error.
May be used from any thread.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc

from kvstow.v1 import admin_pb2_grpc, cache_pb2, cache_pb2_grpc

from .breaker import Breaker
from .credentials import Credentials, Token, open_channel
from .errors import (
    BOOT_ID_KEY,
    EndedCall,
    KvstowError,
    Refused,
    Restarted,
    TimedOut,
    Unreachable,
    error_of,
)
from .handshakes import Handshakes

ReplyT_co = TypeVar("ReplyT_co", covariant=True)

MAX_MESSAGE_BYTES = 64 << 20

CHANNEL_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A daemon that neither answers nor closes (it is stopped, say) is noticed within 15 s, also
    # while the engine is idle.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # A daemon that is back is found soon. The smallest back-off is no pause: it limits each attempt, its handshake
    # included, which the daemon waits for as long. What is shorter never connects where machines are busy.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Two clients in one process share neither connection nor back-off.
    ("grpc.use_local_subchannel_pool", 1),
    # The daemon is on this node; a proxy would only be in the way.
    ("grpc.enable_http_proxy", 0),
]

PROBE_S = 1.0


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long calls may keep their caller waiting, in seconds.

    Attributes:
        lookup_s: `lookup`.
        transfer_s: `store` and `load`, each until the daemon has accepted it, not until it ends.
        control_s: everything else, and on top of a wait that was asked for.
    """

    lookup_s: float = 0.05
    transfer_s: float = 0.2
    control_s: float = 5.0


class PendingCall(EndedCall, Protocol[ReplyT_co]):
    """What gRPC gives for a call that may not have ended."""

    def result(self, timeout: float | None = None) -> ReplyT_co: ...
    def add_done_callback(self, fn: Callable[[Any], None]) -> None: ...


class Calls:
    """Calls to one daemon.

    Args:
        target: where it is; see `target`.
        credentials: how the client shows who it is; None: those that the environment names.

    Raises:
        ValueError: the credentials cannot be used.

    Attributes:
        cache, admin: the methods, to be passed to the functions below.
        breaker: counts what `answer` heard, and what it did not.
    """

    def __init__(self, target: str, credentials: Credentials | None = None) -> None:
        credentials = credentials or Credentials.from_environment()
        credentials.check(target)
        self.target = target
        self._process_id = os.getpid()
        self._token = Token(credentials.token_file) if credentials.token_file else None
        self._channel = open_channel(target, credentials, CHANNEL_OPTIONS)
        self._handshakes = Handshakes(target, credentials)
        self.cache = cache_pb2_grpc.CacheServiceStub(self._channel)
        self.admin = admin_pb2_grpc.AdminServiceStub(self._channel)
        self.breaker = Breaker(time.monotonic)

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that made the connection.

        Both would write to one connection, and each take the other's answers for its own. So here
        nothing is sent, and nothing is closed either.
        """
        return os.getpid() != self._process_id

    def ask(self, method: Any, request: Any, limit_s: float, boot_id: str = "") -> Any:
        """Call, and wait until the call has ended.

        Args:
            limit_s: when it is given up, in seconds; the daemon may still carry it out.
            boot_id: the daemon process it is meant for; empty for any.

        Raises:
            Refused: the daemon said no.
            Unreachable: the call ended without an answer.
        """
        return self._reply(self.begin(method, request, boot_id, limit_s), None, boot_id)

    def begin(
        self, method: Any, request: Any, boot_id: str = "", limit_s: float | None = None
    ) -> PendingCall[Any]:
        """Send a call without waiting for it. It is cancelled when nothing refers to it any more.

        Raises:
            Unreachable: the client is closed, or another process's.
        """
        if self.inherited:
            raise Unreachable("the client belongs to the process that was forked")
        try:
            call: PendingCall[Any] = method.future(
                request, timeout=limit_s, metadata=self._metadata(boot_id)
            )
        except ValueError as error:  # how gRPC says that a channel is closed
            raise Unreachable(str(error)) from None
        return call

    def answer(
        self, call: PendingCall[ReplyT_co], budget_s: float, boot_id: str = ""
    ) -> ReplyT_co:
        """Wait for the answer to a call that was begun, for at most `budget_s`.

        Raises:
            Refused: the daemon said no.
            TimedOut: the budget is used up and the call goes on.
            Unreachable: the call ended without an answer.
        """
        try:
            reply = self._reply(call, min(budget_s, threading.TIMEOUT_MAX), boot_id)
        except Refused:
            self.breaker.succeed()
            raise
        except Unreachable:
            self.breaker.fail()
            raise
        self.breaker.succeed()
        return reply

    def tell(self, method: Any, request: Any, boot_id: str, limit_s: float) -> None:
        """Call without waiting; how it ends does not matter."""
        try:
            self.begin(method, request, boot_id, limit_s).add_done_callback(_ignore)
        except Unreachable:
            return

    def admits(self) -> bool:
        """Whether the daemon is believed to answer; if not, and if it is time, asks it again."""
        return not self.inherited and self.breaker.admits(self._probe)

    def watch(self, session_id: int, after: int, boot_id: str) -> Any:
        """Open a session's stream: an iterator of messages, and a call that can be cancelled."""
        request = cache_pb2.WatchRequest(session_id=session_id, after=after)
        return self.cache.Watch(request, metadata=self._metadata(boot_id))

    def close(self) -> None:
        """End every call and the connection."""
        if not self.inherited:
            self._channel.close()

    def _reply(
        self, call: PendingCall[ReplyT_co], budget_s: float | None, boot_id: str
    ) -> ReplyT_co:
        try:
            reply = call.result(budget_s)
        except grpc.FutureTimeoutError:
            raise TimedOut(f"no answer within {budget_s} s") from None
        except (grpc.RpcError, grpc.FutureCancelledError):
            raise self._error(call) from None
        answered_by = dict(call.trailing_metadata() or ()).get(BOOT_ID_KEY, boot_id)
        if boot_id and answered_by != boot_id:
            raise Restarted(f"daemon process {answered_by!r} answered, not {boot_id!r}")
        return reply

    def _error(self, call: EndedCall) -> KvstowError:
        error = error_of(call)
        if isinstance(error, Unreachable):
            return self._handshakes.failed(call.details() or "") or error
        return error

    def _metadata(self, boot_id: str) -> Sequence[tuple[str, str]]:
        """What goes with a call: which daemon process it is meant for, if that matters, and the token."""
        addressed = ((BOOT_ID_KEY, boot_id),) if boot_id else ()
        return addressed if self._token is None else (*addressed, *self._token.metadata())

    def _probe(self) -> None:
        try:
            call = self.begin(
                self.cache.GetServerInfo, cache_pb2.GetServerInfoRequest(), "", PROBE_S
            )
        except Unreachable:
            self.breaker.fail()
        else:
            call.add_done_callback(self._end_probe)

    def _end_probe(self, call: PendingCall[Any]) -> None:
        if call.code() is grpc.StatusCode.OK:
            self.breaker.succeed()
        else:
            self.breaker.fail()


def _ignore(call: PendingCall[Any]) -> None:
    """Keeps a call alive: gRPC cancels calls that nothing refers to."""
