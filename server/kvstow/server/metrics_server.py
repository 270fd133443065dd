"""The HTTP endpoint of the metrics: where it listens and at which path it answers. What it shows, a registry decides."""

import threading
from collections.abc import Iterable
from wsgiref.simple_server import WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

_PATH = "/metrics"


class MetricsServer:
    """Serves a registry over HTTP on a thread of its own, until it is closed.

    Args:
        registry: what to serve.
        address: host and port; port 0 takes a free one.

    Raises:
        OSError: the address is taken or does not exist.
    """

    def __init__(self, registry: CollectorRegistry, address: str) -> None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(int(port), host, registry)
        self._server.set_app(_at_its_path(make_wsgi_app(registry)))
        self.url = f"http://{address.rpartition(':')[0]}:{self._server.server_port}{_PATH}"

    def close(self) -> None:
        """Stop; returns when the thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _at_its_path(application: WSGIApplication) -> WSGIApplication:
    """The library answers at every path."""

    def answer(environment: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environment["PATH_INFO"] == _PATH:
            return application(environment, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"The metrics are at {_PATH}\n".encode()]

    return answer
