"""What Prometheus sees.

Almost everything is read when it is asked for, from one snapshot of the books and the daemon's status; only what no
snapshot shows (how long things took) is counted as it happens. Label values come from bounded sets: states, reasons,
methods, and the living spaces, of which there are at most `max_spaces`.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvstow.server.core.snapshot import Snapshot, SpaceView
from kvstow.server.core.spaces import SpaceCounters
from kvstow.server.core.types import TransferKind
from kvstow.server.daemon import Daemon, Status
from kvstow.server.device.base import Direction

_SHOWN_CHARACTERS = 120
_SECONDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60)
_SPACE_COUNTERS: tuple[tuple[str, str, Callable[[SpaceCounters], int]], ...] = (
    ("kvstow_lookups", "Lookups.", attrgetter("lookups")),
    ("kvstow_stored_blocks", "Blocks stored.", attrgetter("stored_blocks")),
    ("kvstow_loaded_blocks", "Blocks loaded.", attrgetter("loaded_blocks")),
    ("kvstow_evicted_blocks", "Blocks evicted by policy.", attrgetter("evicted_blocks")),
    ("kvstow_dropped_blocks", "Blocks dropped by request.", attrgetter("dropped_blocks")),
    ("kvstow_resets", "Resets.", attrgetter("resets")),
)
_BYTES = tuple(float(1 << shift) for shift in range(14, 37, 2))


class Metrics:
    """The registry, and what is counted as it happens. Implements `daemon.Meters`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._copy_bytes = Histogram(
            "kvstow_copy_bytes",
            "Bytes that one rank's copy moved.",
            ["direction"],
            buckets=_BYTES,
            registry=self.registry,
        )
        self._copy_seconds = Histogram(
            "kvstow_copy_seconds",
            "Time from the start of one rank's copy to its end.",
            ["direction"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._rpc_seconds = Histogram(
            "kvstow_rpc_seconds",
            "Time that calls took; a stream is one call.",
            ["method", "code"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        for direction in Direction:  # series that exist before their first event can be alerted on
            self._copy_bytes.labels(direction.value)
            self._copy_seconds.labels(direction.value)

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

    def watch(self, daemon: Daemon) -> None:
        """Show this daemon from now on."""
        self.registry.register(_Books(daemon))


class _Books(Collector):
    """Reads the daemon when it is asked."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def collect(self) -> Iterable[Metric]:
        """All families, from one snapshot."""
        info = self._daemon.info()
        build = GaugeMetricFamily(
            "kvstow_build_info",
            "Always 1.",
            labels=["version", "policy", "copy_kernel"],
        )
        build.add_metric([info.version, info.policy, info.copy_kernel], 1)
        yield build
        snapshot = self._daemon.snapshot()
        yield from _status(self._daemon.status())
        yield from _pool(snapshot)
        yield from _spaces(snapshot)
        yield from _transfers(snapshot)
        yield from _sessions(snapshot)


def _status(status: Status) -> Iterator[Metric]:
    yield _gauge("kvstow_ready", "1 while work is taken.", status.state.value == "ready")
    yield _gauge(
        "kvstow_stuck_transfers",
        "Transfers past their deadline whose copy still runs.",
        status.stuck_count,
    )
    yield _counter(
        "kvstow_errors",
        "Errors of the daemon itself; after the first it should be restarted.",
        status.bug_count,
    )
    yield _counter("kvstow_lock_acquisitions", "Times the one lock was taken.", status.lock.count)
    yield _counter("kvstow_lock_held_seconds", "Time the one lock was held.", status.lock.held_s)
    yield _gauge(
        "kvstow_lock_held_seconds_max",
        "Longest time the one lock was held at once.",
        status.lock.longest_s,
    )
    refusals = CounterMetricFamily(
        "kvstow_refusals", "Requests refused for what the books say.", labels=["reason"]
    )
    for reason, count in sorted(status.refusals.items()):
        refusals.add_metric([reason], count)
    yield refusals


def _pool(snapshot: Snapshot) -> Iterator[Metric]:
    states = dict.fromkeys(("free", "evictable", "held", "writing", "quarantined"), 0)
    for table in snapshot.tables:
        states["free"] += table.free * table.slot_bytes
        states["evictable"] += table.evictable * table.slot_bytes
        states["held"] += table.held * table.slot_bytes
        states["writing"] += table.writing * table.slot_bytes
        states["quarantined"] += table.quarantined * table.slot_bytes
    used = sum(states.values())
    states["unassigned"] = snapshot.unused_extents * snapshot.extent_bytes
    states["unusable"] = snapshot.extents * snapshot.extent_bytes - used - states["unassigned"]
    family = GaugeMetricFamily(
        "kvstow_pool_bytes",
        "Bytes of the host pool: unassigned to a block size, unusable at the ends of extents, or slots by state.",
        labels=["state"],
    )
    for state, size_bytes in states.items():
        family.add_metric([state], size_bytes)
    yield family


def _spaces(snapshot: Snapshot) -> Iterator[Metric]:
    labels = {space.id: _space_labels(space) for space in snapshot.spaces}
    blocks = GaugeMetricFamily(
        "kvstow_blocks", "Blocks in the cache.", labels=["space", "model", "state"]
    )
    found = CounterMetricFamily(
        "kvstow_lookup_blocks", "Blocks looked up.", labels=["space", "model", "result"]
    )
    offered = CounterMetricFamily(
        "kvstow_offered_blocks",
        "Blocks offered by stores, by what became of them.",
        labels=["space", "model", "status"],
    )
    for space in snapshot.spaces:
        mine, counters = labels[space.id], space.counters
        blocks.add_metric([*mine, "ready"], space.ready_blocks)
        blocks.add_metric([*mine, "writing"], space.writing_blocks)
        found.add_metric([*mine, "hit"], counters.hit_blocks)
        found.add_metric([*mine, "pending"], counters.pending_blocks)
        found.add_metric([*mine, "miss"], counters.missed_blocks)
        for status, count in sorted(counters.offered.items()):
            offered.add_metric([*mine, status.lower()], count)
    yield from (blocks, found, offered)
    for name, text, field in _SPACE_COUNTERS:
        family = CounterMetricFamily(name, text, labels=["space", "model"])
        for space in snapshot.spaces:
            family.add_metric(labels[space.id], field(space.counters))
        yield family


def _transfers(snapshot: Snapshot) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "kvstow_transfers", "Transfers that ended.", labels=["kind", "outcome"]
    )
    for (kind, outcome), count in snapshot.counters.transfers.items():
        ended.add_metric([kind.value, outcome.value], count)
    yield ended
    flying = GaugeMetricFamily(
        "kvstow_transfers_in_flight", "Transfers that have not ended.", labels=["kind", "state"]
    )
    for kind in TransferKind:
        states = [
            "abandoned" if transfer.abandoned else transfer.state.value
            for transfer in snapshot.transfers
            if transfer.kind is kind
        ]
        for state in ("queued", "running", "abandoned"):
            flying.add_metric([kind.value, state], states.count(state))
    yield flying
    yield _gauge(
        "kvstow_transfer_age_seconds_max",
        "Age of the oldest transfer that has not ended; 0 without any.",
        max((transfer.age_s for transfer in snapshot.transfers), default=0.0),
    )
    yield _counter(
        "kvstow_overdue_transfers",
        "Transfers that passed their deadline before they ended.",
        snapshot.counters.overdue,
    )
    yield _counter(
        "kvstow_late_completions",
        "Ends of copies whose transfer was not known any more.",
        snapshot.counters.late_completions,
    )


def _sessions(snapshot: Snapshot) -> Iterator[Metric]:
    counters = snapshot.counters
    yield _gauge("kvstow_sessions", "Sessions.", len(snapshot.sessions))
    yield _counter("kvstow_sessions_opened", "Sessions opened.", counters.sessions_opened)
    ends = CounterMetricFamily("kvstow_session_ends", "Sessions that ended.", labels=["cause"])
    for cause, count in sorted(counters.session_ends.items()):
        ends.add_metric([cause], count)
    yield ends
    yield _gauge("kvstow_leases", "Leases.", len(snapshot.leases))
    yield _gauge(
        "kvstow_leased_blocks",
        "Blocks that leases hold; one that several hold counts for each.",
        sum(lease.blocks for lease in snapshot.leases),
    )
    yield _counter("kvstow_leases_expired", "Leases that ran out.", counters.leases_expired)
    yield _gauge(
        "kvstow_unacknowledged_events",
        "Events that readers have not acknowledged.",
        sum(session.unacknowledged for session in snapshot.sessions),
    )
    yield _counter(
        "kvstow_events_lost", "Events dropped because their reader was slow.", counters.events_lost
    )


def _space_labels(space: SpaceView) -> list[str]:
    return [str(space.id), space.identity.model[:_SHOWN_CHARACTERS]]


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
