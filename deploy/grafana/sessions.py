"""Who is connected, how they leave, what they are refused, and how the daemon answers."""

from .parts import Chart, Dashboard, Query, Row, Unit
from .promql import largest, quantile, rate, recent, series, total

DASHBOARD = Dashboard(
    "sessions",
    "kvstow: sessions and devices",
    "Who is connected, who was lost, who is refused what, and do daemon and devices keep up?",
    (
        Row(
            "Sessions",
            (
                Chart(
                    "Sessions",
                    Unit.COUNT,
                    "One for each engine. `away`: the stream is lost, and the session ends when its grace time is over.",
                    (Query(total(series("kvstow_sessions"), "stream"), "{{stream}}"),),
                    stacked=True,
                ),
                Chart(
                    "Ends of sessions",
                    Unit.COUNT,
                    "Sessions that ended within five minutes, by cause. `process_died` and `stream_lost` are engines that "
                    "did not say goodbye: look at their logs. Their stored blocks stay.",
                    (
                        Query(total(recent("kvstow_session_ends_total"), "cause"), "{{cause}}"),
                        Query(total(recent("kvstow_sessions_opened_total")), "opened"),
                    ),
                ),
                Chart(
                    "Leases",
                    Unit.COUNT,
                    "Holds between a lookup and its load, and how many blocks they keep from eviction. Leases that expire "
                    "in numbers: engines look up and then neither load nor release.",
                    (
                        Query(total(series("kvstow_leases")), "leases"),
                        Query(total(series("kvstow_leased_blocks")), "leased blocks"),
                        Query(total(recent("kvstow_leases_expired_total")), "expired"),
                    ),
                ),
            ),
        ),
        Row(
            "Streams",
            (
                Chart(
                    "Events that wait",
                    Unit.COUNT,
                    "Events that readers have not acknowledged: of all sessions, and of the one furthest behind. A reader "
                    "that falls behind is a stalled engine.",
                    (
                        Query(
                            total(series("kvstow_unacknowledged_events"), "kind"), "all: {{kind}}"
                        ),
                        Query(largest(series("kvstow_stream_lag_events")), "furthest behind"),
                    ),
                ),
                Chart(
                    "Events lost",
                    Unit.COUNT,
                    "Events dropped within five minutes because their reader was slow, and how often an engine was told to resync. "
                    "Reports of transfers are never dropped. See the runbook, KvstowEventsLost.",
                    (
                        Query(total(recent("kvstow_events_lost_total")), "lost"),
                        Query(total(recent("kvstow_resyncs_total")), "resyncs"),
                    ),
                ),
            ),
        ),
        Row(
            "Devices",
            (
                Chart(
                    "Devices that answer",
                    Unit.YES_OR_NO,
                    "Whether each device answers in its time. No: sessions with memory on it find nothing; see the runbook, "
                    "KvstowDeviceUnhealthy.",
                    (Query(series("kvstow_device_healthy"), "{{instance}} {{device}}"),),
                ),
                Chart(
                    "How copies are made",
                    Unit.COUNT,
                    "How the copies of each device in use are made. Rows where batches were before: the CUDA driver has refused "
                    "one, and copies of small blocks are slower.",
                    (Query(series("kvstow_copy_method"), "{{device}} {{method}}"),),
                ),
                Chart(
                    "Copies given to devices",
                    Unit.COUNT,
                    "Copies that each device was given and has not ended. A depth that only grows on one device points to "
                    "that device; on all of them, to more work than the bus can move.",
                    (
                        Query(
                            total(series("kvstow_copy_queue_depth"), "device", "direction"),
                            "{{device}} {{direction}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Calls",
            (
                Chart(
                    "Calls",
                    Unit.PER_SECOND,
                    "Calls that ended, by method.",
                    (
                        Query(
                            total(rate("kvstow_rpc_duration_seconds_count"), "method"),
                            "{{method}}",
                        ),
                    ),
                ),
                Chart(
                    "Time of a call, p99",
                    Unit.SECONDS,
                    "Streams left out. All methods slow together: the lock or the CPU; see below.",
                    (
                        Query(
                            quantile(
                                0.99,
                                "kvstow_rpc_duration_seconds",
                                "method",
                                matchers=('method!="Watch"',),
                            ),
                            "{{method}}",
                        ),
                    ),
                ),
                Chart(
                    "Size of a lookup",
                    Unit.COUNT,
                    "Keys in one lookup. A lookup costs time for each of its keys; the limit of a call is `max_keys`.",
                    tuple(
                        Query(quantile(share, "kvstow_lookup_keys"), f"p{share * 100:.0f}")
                        for share in (0.5, 0.99)
                    ),
                ),
            ),
        ),
        Row(
            "Calls that were refused",
            (
                Chart(
                    "Calls that did not succeed",
                    Unit.PER_SECOND,
                    "By canonical code. UNAUTHENTICATED and PERMISSION_DENIED: see the runbook, KvstowCallersRefused. "
                    "INTERNAL is a bug: see KvstowInternalErrors.",
                    (
                        Query(
                            total(rate("kvstow_rpc_duration_seconds_count", 'code!="OK"'), "code"),
                            "{{code}}",
                        ),
                    ),
                ),
                Chart(
                    "Refusals",
                    Unit.PER_SECOND,
                    "Requests that the books refused, by reason; docs/protocol.md says for each what the caller must do. "
                    "STALE_GENERATION around a reset is normal.",
                    (
                        Query(
                            total(rate("kvstow_refusals_total"), "reason") + " > 0", "{{reason}}"
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "The daemon",
            (
                Chart(
                    "Lock held",
                    Unit.SHARE,
                    "Share of time in which the one lock was held. Above one half calls queue up behind each other: fewer "
                    "engines per daemon, or larger batches per call.",
                    (
                        Query(
                            largest(rate("kvstow_lock_held_seconds_total"), "instance"),
                            "{{instance}}",
                        ),
                    ),
                    full=True,
                ),
                Chart(
                    "Longest hold of the lock",
                    Unit.SECONDS,
                    "Since the start of the daemon. Above 0.02 s: report it, with the sizes of the pool and of the calls.",
                    (
                        Query(
                            largest(series("kvstow_lock_held_max_seconds"), "instance"),
                            "{{instance}}",
                        ),
                    ),
                ),
                Chart(
                    "CPU",
                    Unit.COUNT,
                    "Cores that the daemon uses. Near what it may use: give it more, or copies and calls wait.",
                    (
                        Query(
                            largest(rate("process_cpu_seconds_total", 'job="kvstow"'), "instance"),
                            "{{instance}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)
