"""Refusals become gRPC statuses: which canonical code each has, and what is sent beside it.

Decided here: the code of every refusal and the shape of the details. Not decided here: when
something is refused (the core and `convert`). Pure; may be called from any thread.
docs/protocol.md holds the same table for readers, and a test compares the two.
"""

import grpc

from kvstow.server.core import errors
from kvstow.v1 import errors_pb2

DOMAIN = "kvstow"
DETAILS_KEY = "grpc-status-details-bin"
"""The standard key under which every gRPC library looks for a `google.rpc.Status`."""

ERROR_INFO_URL = "type.googleapis.com/google.rpc.ErrorInfo"

_MAX_TEXT = 500
"""Messages and facts may quote what a client sent, and peers drop trailers above 8 KiB in all."""


class StreamReplaced(errors.Refusal):
    """A newer stream of the same session was opened."""

    reason = "STREAM_REPLACED"
    next_step = "Do not reconnect; the newer stream has the events."


class Unauthenticated(errors.Refusal):
    """The daemon asks for a token, and the call shows none that it knows."""

    reason = "UNAUTHENTICATED"
    next_step = "Give the client a token that the daemon's token file lists, and name its file in KVSTOW_TOKEN_FILE."


class NotPermitted(errors.Refusal):
    """The token is known, and its role or its tenant may not do this."""

    reason = "NOT_PERMITTED"
    next_step = "Use a token whose role may do this, or one of the tenant that is named."


class TooManyCalls(errors.Refusal):
    """A token, or all engines of a tenant, have as many calls open as the daemon has threads for them."""

    reason = "TOO_MANY_CALLS"
    next_step = "Wait until other calls with this token, or of this tenant, have ended."


class InternalError(errors.Refusal):
    """An exception that no one foresaw: a bug of ours. The books may or may not have changed."""

    reason = "INTERNAL"
    next_step = "Look for the correlation id in the daemon's log and report the bug."


CODES: dict[type[errors.Refusal], grpc.StatusCode] = {
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.DuplicateKey: grpc.StatusCode.INVALID_ARGUMENT,
    errors.DuplicateBlock: grpc.StatusCode.INVALID_ARGUMENT,
    errors.BlockOutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    errors.TooManyKeys: grpc.StatusCode.INVALID_ARGUMENT,
    errors.BlockTooLarge: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NoSuchSession: grpc.StatusCode.NOT_FOUND,
    errors.NoSuchSpace: grpc.StatusCode.NOT_FOUND,
    errors.SpaceInUse: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StaleGeneration: grpc.StatusCode.FAILED_PRECONDITION,
    errors.NotAttached: grpc.StatusCode.FAILED_PRECONDITION,
    errors.RankAttached: grpc.StatusCode.ALREADY_EXISTS,
    errors.RankMismatch: grpc.StatusCode.FAILED_PRECONDITION,
    errors.RegionInvalid: grpc.StatusCode.INVALID_ARGUMENT,
    errors.FenceInvalid: grpc.StatusCode.INVALID_ARGUMENT,
    errors.FenceOutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    errors.CudaOff: grpc.StatusCode.FAILED_PRECONDITION,
    errors.GpuUnknown: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DeviceBusy: grpc.StatusCode.UNAVAILABLE,
    errors.TransferIdReused: grpc.StatusCode.ALREADY_EXISTS,
    errors.KeyNotReady: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TooManyTransfers: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManyLeases: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManySessions: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.TooManySpaces: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ShuttingDown: grpc.StatusCode.UNAVAILABLE,
    errors.NotStarted: grpc.StatusCode.UNAVAILABLE,
    StreamReplaced: grpc.StatusCode.ABORTED,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
    TooManyCalls: grpc.StatusCode.RESOURCE_EXHAUSTED,
    InternalError: grpc.StatusCode.INTERNAL,
}


class RefusalStatus(grpc.Status):
    """What ends a refused call, for `ServicerContext.abort_with_status`.

    Args:
        refusal: why.
        metadata: further trailing metadata.
    """

    def __init__(self, refusal: errors.Refusal, *metadata: tuple[str, str]) -> None:
        self.code = CODES[type(refusal)]
        self.details = _short(str(refusal))
        self.trailing_metadata = (*metadata, (DETAILS_KEY, self._encode(refusal)))

    def _encode(self, refusal: errors.Refusal) -> bytes:
        """The refusal as a serialized `google.rpc.Status` with one `google.rpc.ErrorInfo`."""
        facts = {name: _short(value) for name, value in refusal.facts.items()}
        info = errors_pb2.ErrorInfo(reason=refusal.reason, domain=DOMAIN, metadata=facts)
        info.metadata["next_step"] = refusal.next_step
        status = errors_pb2.Status(code=self.code.value[0], message=self.details)
        status.details.add(type_url=ERROR_INFO_URL, value=info.SerializeToString())
        return status.SerializeToString()


def _short(text: str) -> str:
    """Printable ASCII, because gRPC sends every other byte of a message as three."""
    text = text.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
