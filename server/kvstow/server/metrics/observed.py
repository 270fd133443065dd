"""The registry of the metrics, and what no snapshot shows afterwards: how long calls and copies took."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from kvstow.server.daemon import Daemon
from kvstow.server.device.base import Direction

from .books import Books
from .families import service, transfers
from .family import Family

_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)
_NOT_FOR_THEM = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_BYTES = tuple(float(1 << shift) for shift in range(14, 37, 2))


class Metrics:
    """The registry, and what is counted as it happens. Implements `daemon.Meters`.

    Attributes:
        registry: what is to be served.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # one more series for each histogram, which says nothing here
        self.registry = CollectorRegistry()
        self._copy_bytes = self._histogram(transfers.COPY_BYTES, _BYTES)
        self._copy_seconds = self._histogram(transfers.COPY_DURATION, _SECONDS)
        self._rpc_seconds = self._histogram(service.RPC_DURATION, _SECONDS)
        refused = service.CALLERS_REFUSED
        self._callers_refused = Counter(
            refused.name, refused.meaning, refused.label_names, registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        # Series that exist before their first event can be alerted on.
        for direction in Direction:
            self._copy_bytes.labels(direction.value)
            self._copy_seconds.labels(direction.value)
        for code in _NOT_FOR_THEM:
            self._callers_refused.labels(code)

    def copied(self, direction: Direction, size_bytes: int, seconds: float) -> None:
        """See `Meters.copied`."""
        self._copy_bytes.labels(direction.value).observe(size_bytes)
        self._copy_seconds.labels(direction.value).observe(seconds)

    def called(self, method: str, code: str, seconds: float) -> None:
        """A call has ended.

        Args:
            method: its full name.
            code: name of the canonical code it ended with.
            seconds: how long it took.
        """
        self._rpc_seconds.labels(method.rpartition("/")[2], code).observe(seconds)
        if code in _NOT_FOR_THEM:
            self._callers_refused.labels(code).inc()

    def watch(self, daemon: Daemon) -> None:
        """Show this daemon from now on."""
        self.registry.register(Books(daemon))

    def _histogram(self, family: Family, bounds: tuple[float, ...]) -> Histogram:
        return Histogram(
            family.name,
            family.meaning,
            family.label_names,
            buckets=bounds,
            registry=self.registry,
        )
