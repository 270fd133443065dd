"""What a call to the daemon can end with instead of a reply, and how that is told from its status.

Decided here: which failures are refusals (the daemon decided, and nothing changed) and which leave
open whether anything happened. Not decided here: what a caller makes of them; `calls` raises them,
the session turns most of them into misses. Pure; may be called from any thread.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError

from kvstow.v1 import errors_pb2

DETAILS_KEY = "grpc-status-details-bin"
BOOT_ID_KEY = "kvstow-boot-id"

STALE_GENERATION = "STALE_GENERATION"
DEVICE_BUSY = "DEVICE_BUSY"

TRANSIENT = frozenset(
    {"DRAINING", "NOT_READY", "NO_SUCH_SESSION", "TOO_MANY_CALLS", "UNAUTHENTICATED"}
)
"""Reasons that say how the daemon fares, not that the request was wrong. A token that is not known may be known soon, here or
there: its files are replaced one after the other."""

_UNDECIDED = frozenset(
    {
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    }
)
"""Codes that gRPC itself may give to a call that the daemon has, or will have, carried out."""


class EndedCall(Protocol):
    """What gRPC knows of a call that has ended."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...
    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


class KvstowError(Exception):
    """Anything that this package raises about the daemon."""


class Refused(KvstowError):
    """The daemon said no, and nothing changed.

    Attributes:
        reason: stable upper-case name; docs/protocol.md lists all of them. For an error that
            comes from gRPC itself, the name of its code.
        next_step: what to do about it, in one sentence; empty if the error comes from gRPC itself.
        facts: what the refusal is about, as short strings (indexes, counts, generations).
    """

    def __init__(
        self, reason: str, message: str, next_step: str, facts: Mapping[str, str]
    ) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.next_step = next_step
        self.facts = facts


class Unreachable(KvstowError):
    """The call ended without the daemon's answer; whether it was carried out is unknown."""


class TlsFailed(Unreachable):
    """No connection was made: the two sides do not agree on TLS, or one does not accept the other's certificate.

    Attributes:
        found: what was seen.
        next_step: what to do about it.
    """

    def __init__(self, found: str, next_step: str) -> None:
        super().__init__(f"{found}; {next_step}")
        self.found = found
        self.next_step = next_step


class TimedOut(Unreachable):
    """The budget is used up. The call goes on, and its answer may still come."""


class Restarted(Unreachable):
    """Another daemon process answered than the one that the call was meant for."""


def error_of(call: EndedCall) -> KvstowError:
    """The error that a failed call stands for.

    Args:
        call: a call that has ended with a status other than OK.
    """
    code, message = call.code(), call.details() or ""
    info = _error_info(call.trailing_metadata() or ())
    if info is not None and info.reason != "INTERNAL":
        facts = dict(info.metadata)
        return Refused(info.reason, message, facts.pop("next_step", ""), facts)
    if code in _UNDECIDED:
        return Unreachable(f"{code.name}: {message}")
    return Refused(code.name, message, "", {})


def _error_info(metadata: Iterable[tuple[str, str | bytes]]) -> errors_pb2.ErrorInfo | None:
    """The one `ErrorInfo` of the daemon, None if the status is not of its making."""
    details = dict(metadata).get(DETAILS_KEY)
    if not isinstance(details, bytes):
        return None
    try:
        status = errors_pb2.Status.FromString(details)
        return errors_pb2.ErrorInfo.FromString(status.details[0].value)
    except (DecodeError, IndexError):
        return None
