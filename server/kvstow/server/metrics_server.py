"""The HTTP endpoint of the metrics: where it listens and at which path it answers. What it shows, a registry decides."""

import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class MetricsTls:
    """Files for HTTPS.

    Args:
        cert, key: the certificate chain and its key.
        client_ca: authorities of client certificates; with it, clients without one are refused.
    """

    cert: Path
    key: Path
    client_ca: Path | None


class MetricsServer:
    """Serves a registry over HTTP, or HTTPS, on a thread of its own, until it is closed.

    Args:
        registry: what to serve.
        address: host and port; port 0 takes a free one.
        tls: files for HTTPS; None: HTTP.

    Raises:
        OSError: the address is taken or does not exist.
    """

    def __init__(
        self, registry: CollectorRegistry, address: str, tls: MetricsTls | None = None
    ) -> None:
        host, _, port = address.rpartition(":")
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(
            int(port), host.strip("[]"), registry, **_files(tls)
        )
        match self._server.socket:
            case ssl.SSLSocket() as encrypted:
                # Else a client that does not go on with its handshake would keep the others out.
                encrypted.do_handshake_on_connect = False  # type: ignore[attr-defined]
        self._server.set_app(_at_its_path(make_wsgi_app(registry)))
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{host}:{self._server.server_port}{_PATH}"

    def reload(self, load_into: Callable[[ssl.SSLContext], None]) -> None:
        """Serve new connections with another certificate; changes nothing without TLS.

        Args:
            load_into: gives it to a context. It was read before: what its files hold now may be wrong again.
        """
        match self._server.socket:
            case ssl.SSLSocket() as encrypted:
                load_into(encrypted.context)

    def close(self) -> None:
        """Stop; returns when the thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _files(tls: MetricsTls | None) -> dict[str, Any]:
    """The files in the library's words."""
    if tls is None:
        return {}
    known = tls.client_ca is not None
    return {
        "certfile": str(tls.cert),
        "keyfile": str(tls.key),
        "client_cafile": str(tls.client_ca) if known else None,
        "client_auth_required": known,
    }


def _at_its_path(application: WSGIApplication) -> WSGIApplication:
    """The library answers at every path."""

    def answer(environment: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environment["PATH_INFO"] == _PATH:
            return application(environment, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"The metrics are at {_PATH}\n".encode()]

    return answer
