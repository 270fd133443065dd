"""Reads the daemon when it is asked: one snapshot of the books and the daemon's status."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kvstow.server.core.distributions import Distribution
from kvstow.server.core.errors import Refusal
from kvstow.server.core.snapshot import Snapshot
from kvstow.server.core.types import DropReason, SessionEnd, TransferKind, TransferState
from kvstow.server.daemon import Daemon, Status
from kvstow.server.device.base import DeviceHealth, Direction

from .families import blocks, pool, service, sessions, transfers
from .family import Family
from .labels import BoundedLabels
from .spaces import by_account

_REASONS = sorted(
    kind.reason for kind in Refusal.__subclasses__() if kind.__module__ == Refusal.__module__
)
"""Of the refusals of the books: series that exist before their first event can be alerted on."""

_OUTCOMES = (TransferState.DONE, TransferState.FAILED, TransferState.ABANDONED)
_STATES = ("free", "ready", "held", "writing", "quarantined", "zeroing")
_SLOT_SIZES = 64
"""Slot sizes that get a label value of their own."""


class Books(Collector):
    """What is read of a daemon; each scrape reads a snapshot of its own.

    Args:
        daemon: what is read.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = threading.Lock()
        self._slot_sizes = BoundedLabels(_SLOT_SIZES)

    def collect(self) -> Iterable[Metric]:
        """All families that are read, from one snapshot."""
        info = self._daemon.info()
        yield service.BUILD_INFO.rows([((info.version, info.policy, info.copy_kernel), 1)])
        yield pool.PINNED.one(info.pinned)
        yield from _status(self._daemon.status())
        snapshot = self._daemon.snapshot()
        yield _pool(snapshot)
        yield self._extents(snapshot)
        yield from by_account(snapshot)
        yield from _blocks(snapshot)
        yield from _transfers(snapshot)
        yield from _sessions(snapshot)
        yield from _streams(snapshot)

    def _extents(self, snapshot: Snapshot) -> Metric:
        with self._lock:
            sums = Counter(dict.fromkeys(self._slot_sizes.all(), 0))
            for table in snapshot.tables:
                sums[self._slot_sizes.of(str(table.slot_bytes))] += table.extents
        by_size = (((size,), extents) for size, extents in sums.items())
        return pool.EXTENTS.rows([(("none",), snapshot.unused_extents), *by_size])


def _status(status: Status) -> Iterator[Metric]:
    yield service.READY.one(status.state.value == "ready")
    yield service.INTERNAL_ERRORS.one(status.bug_count)
    yield service.REFUSALS.rows(((reason,), status.refusals.get(reason, 0)) for reason in _REASONS)
    yield service.LOCK_ACQUISITIONS.one(status.lock.count)
    yield service.LOCK_HELD.one(status.lock.held_s)
    yield service.LOCK_HELD_MAX.one(status.lock.longest_s)
    yield transfers.STUCK.one(status.stuck_count)
    yield from _devices(status.devices)


def _devices(devices: Sequence[DeviceHealth]) -> Iterator[Metric]:
    yield transfers.DEVICE_HEALTHY.rows(((each.device,), each.healthy) for each in devices)
    used = [each for each in devices if each.copies]
    yield transfers.COPY_METHOD.rows(((each.device, each.copies), 1) for each in used)
    yield transfers.COPY_QUEUE_DEPTH.rows(
        ((each.device, direction.value), each.queue_depths[direction])
        for each in devices
        for direction in Direction
    )


def _pool(snapshot: Snapshot) -> Metric:
    sizes = {"unassigned": snapshot.unused_extents * snapshot.extent_bytes}
    sizes.update(dict.fromkeys(_STATES, 0))
    for table in snapshot.tables:
        sizes["free"] += table.free * table.slot_bytes
        sizes["ready"] += table.evictable * table.slot_bytes
        sizes["held"] += table.held * table.slot_bytes
        sizes["writing"] += table.writing * table.slot_bytes
        sizes["quarantined"] += table.quarantined * table.slot_bytes
        sizes["zeroing"] += table.zeroing * table.slot_bytes
    sizes["unusable"] = snapshot.extents * snapshot.extent_bytes - sum(sizes.values())
    return pool.POOL.rows(((state,), size_bytes) for state, size_bytes in sizes.items())


def _blocks(snapshot: Snapshot) -> Iterator[Metric]:
    evictions, counters = snapshot.evictions, snapshot.counters
    yield _spread(blocks.LOOKUP_KEYS, counters.lookup_keys)
    yield blocks.EVICTED.rows(
        [(("capacity",), evictions.capacity), (("reclaimed",), evictions.reclaimed)]
    )
    yield _spread(blocks.EVICTION_AGE, evictions.age_s)
    yield blocks.DROPPED.rows(((reason.value,), counters.dropped[reason]) for reason in DropReason)


def _spread(family: Family, distribution: Distribution) -> Metric:
    return family.counted(distribution.bounds, distribution.counts, distribution.total)


def _transfers(snapshot: Snapshot) -> Iterator[Metric]:
    counters = snapshot.counters
    yield transfers.TRANSFERS.rows(
        ((kind.value, outcome.value), counters.transfers[kind, outcome])
        for kind in TransferKind
        for outcome in _OUTCOMES
    )
    flying = Counter(
        (found.kind.value, "abandoned" if found.abandoned else found.state.value)
        for found in snapshot.transfers
    )
    yield transfers.IN_FLIGHT.rows(
        ((kind.value, state), flying[kind.value, state])
        for kind in TransferKind
        for state in ("queued", "running", "abandoned")
    )
    yield transfers.OLDEST_TRANSFER.one(
        max((found.age_s for found in snapshot.transfers), default=0.0)
    )
    yield transfers.OVERDUE.one(counters.overdue)
    yield transfers.LATE_COMPLETIONS.one(counters.late_completions)


def _sessions(snapshot: Snapshot) -> Iterator[Metric]:
    counters = snapshot.counters
    streaming = sum(session.streaming for session in snapshot.sessions)
    yield sessions.SESSIONS.rows(
        [(("open",), streaming), (("away",), len(snapshot.sessions) - streaming)]
    )
    yield sessions.SESSIONS_OPENED.one(counters.sessions_opened)
    yield sessions.SESSION_ENDS.rows(
        ((cause.value,), counters.session_ends[cause.value]) for cause in SessionEnd
    )
    yield sessions.LEASES.one(len(snapshot.leases))
    yield sessions.LEASED_BLOCKS.one(sum(lease.blocks for lease in snapshot.leases))
    yield sessions.LEASES_EXPIRED.one(counters.leases_expired)


def _streams(snapshot: Snapshot) -> Iterator[Metric]:
    lags = [session.unacknowledged for session in snapshot.sessions]
    reports = sum(session.reports for session in snapshot.sessions)
    yield sessions.UNACKNOWLEDGED.rows([(("report",), reports), (("other",), sum(lags) - reports)])
    yield sessions.STREAM_LAG.one(max(lags, default=0))
    yield sessions.EVENTS_LOST.one(snapshot.counters.events_lost)
    yield sessions.RESYNCS.one(snapshot.counters.resyncs)
