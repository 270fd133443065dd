"""What is being copied, how that ends, and what resets left behind."""

from .parts import Chart, Dashboard, Figure, Query, Row, Unit
from .promql import largest, quantile, rate, ratio, recent, series, total

DASHBOARD = Dashboard(
    "transfers",
    "kvstow: transfers and resets",
    "Do copies end, how long do they take, and have resets drained?",
    (
        Row(
            "Now",
            (
                Figure(
                    "Oldest transfer",
                    Unit.SECONDS,
                    "Age of the oldest transfer that has not ended. Seconds are normal under load; a value that only "
                    "grows is a copy that does not end: `kvstow transfers --stuck` names it.",
                    Query(largest(series("kvstow_oldest_transfer_age_seconds")), "age"),
                    bad_from=60,
                ),
                Figure(
                    "Stuck transfers",
                    Unit.COUNT,
                    "Past their deadline, and their copy still runs. Lookups of their sessions find nothing meanwhile. "
                    "See the runbook, KvstowTransfersStuck.",
                    Query(total(series("kvstow_stuck_transfers")), "stuck"),
                    bad_from=1,
                ),
                Figure(
                    "Resets that drain",
                    Unit.COUNT,
                    "Resets in effect whose older copies still run. It returns to zero by itself unless a copy is stuck.",
                    Query(total(series("kvstow_resets_draining")), "draining"),
                ),
                Figure(
                    "Quarantined",
                    Unit.BYTES,
                    "Memory under copies of abandoned stores: it comes back when they end.",
                    Query(
                        total(series("kvstow_pool_bytes", 'state="quarantined"')), "quarantined"
                    ),
                ),
            ),
        ),
        Row(
            "Transfers",
            (
                Chart(
                    "In flight",
                    Unit.COUNT,
                    "Transfers that have not ended. Many `queued`: engines offer more than can be copied; loads go "
                    "first. `abandoned` ones still own their slots.",
                    (
                        Query(
                            total(series("kvstow_transfers_in_flight"), "kind", "state"),
                            "{{kind}} {{state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Chart(
                    "Ended",
                    Unit.PER_SECOND,
                    "How transfers ended. `failed`: the log says which block of which rank and why. `abandoned`: by a "
                    "reset, a cancel or the end of their session.",
                    (
                        Query(
                            total(rate("kvstow_transfers_total"), "kind", "outcome"),
                            "{{kind}} {{outcome}}",
                        ),
                    ),
                ),
                Chart(
                    "Overdue and late",
                    Unit.COUNT,
                    "Transfers that passed their deadline within five minutes, and ends of copies that nobody waited for. "
                    "Overdue ones without stuck ones: the deadline is short for the load; otherwise see the runbook, "
                    "KvstowTransfersOverdue.",
                    (
                        Query(total(recent("kvstow_overdue_transfers_total")), "overdue"),
                        Query(total(recent("kvstow_late_completions_total")), "late completions"),
                    ),
                ),
            ),
        ),
        Row(
            "Copies",
            (
                Chart(
                    "Time of a copy",
                    Unit.SECONDS,
                    "From the start of one rank's copy to its end. Rising with the number in flight: they share the bus. "
                    "Rising alone: the machine or the device is slower than it was.",
                    tuple(
                        Query(
                            quantile(share, "kvstow_copy_duration_seconds", "direction"),
                            f"{{{{direction}}}} p{share * 100:.0f}",
                        )
                        for share in (0.5, 0.99)
                    ),
                ),
                Chart(
                    "Size of a copy",
                    Unit.BYTES,
                    "Mean bytes of one rank's copy. Small copies cost more per byte: large blocks and whole prefixes copy "
                    "best.",
                    (
                        Query(
                            ratio(
                                total(rate("kvstow_copy_bytes_sum"), "direction"),
                                total(rate("kvstow_copy_bytes_count"), "direction"),
                            ),
                            "{{direction}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Resets and losses",
            (
                Chart(
                    "Resets",
                    Unit.COUNT,
                    "Resets within five minutes, by tenant and model. Each empties the cache of a space at once; many "
                    "without weight updates mean that somebody resets needlessly.",
                    (
                        Query(
                            total(recent("kvstow_resets_total"), "tenant", "model"),
                            "{{tenant}} {{model}}",
                        ),
                    ),
                ),
                Chart(
                    "Blocks dropped",
                    Unit.PER_SECOND,
                    "Blocks that had been stored and left by request, by reason. `failed_load`: they could not be read; "
                    "see how transfers ended.",
                    (Query(total(rate("kvstow_dropped_blocks_total"), "reason"), "{{reason}}"),),
                ),
                Chart(
                    "Blocks not stored",
                    Unit.PER_SECOND,
                    "Blocks whose store was accepted and came to nothing: engines compute them again and offer them again.",
                    (
                        Query(
                            total(rate("kvstow_unstored_blocks_total"), "outcome"), "{{outcome}}"
                        ),
                    ),
                ),
            ),
        ),
    ),
)
