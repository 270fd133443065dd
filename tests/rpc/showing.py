"""A channel that shows a token with every call."""

from typing import Any

import grpc


class _Shows(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Puts a token beside every call."""

    def __init__(self, token: str) -> None:
        self._entry = ("authorization", f"Bearer {token}")

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with_token(details), request)

    def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(self._with_token(details), request)

    def _with_token(self, details: Any) -> Any:
        return details._replace(metadata=[*(details.metadata or ()), self._entry])


def showing(channel: grpc.Channel, token: str) -> grpc.Channel:
    """The same channel, with a token beside every call."""
    return grpc.intercept_channel(channel, _Shows(token))
