"""Is it helping?"""

from .parts import Chart, Dashboard, Figure, Listing, Query, Row, Unit
from .promql import quantile, rate, ratio, rise, series, total

_HITS = 'result="hit"'
_LOADS = 'direction="load"'

DASHBOARD = Dashboard(
    "overview",
    "kvstow: overview",
    "Is it helping? Hits, bytes that engines did not have to compute, speed, and what presses.",
    (
        Row(
            "Is it helping?",
            (
                Figure(
                    "Hit ratio",
                    Unit.SHARE,
                    "Share of the blocks looked up in the range shown that were found. What is good depends on how much "
                    "the prompts have in common. Near zero with lookups: compare the identities of the engines "
                    "(`kvstow spaces`); they share only where all of it is equal.",
                    Query(
                        ratio(
                            total(rise("kvstow_lookup_blocks_total", _HITS)),
                            total(rise("kvstow_lookup_blocks_total")),
                        ),
                        "hit ratio",
                    ),
                ),
                Figure(
                    "Loaded",
                    Unit.BYTES,
                    "Bytes of KV that engines loaded in the range shown instead of computing them.",
                    Query(total(rise("kvstow_copy_bytes_sum", _LOADS)), "loaded"),
                ),
                Figure(
                    "Daemons ready",
                    Unit.COUNT,
                    "Daemons that take work. Red: none does. Look at the start log: the host pool may still be in "
                    "preparation, or the daemon drains.",
                    Query(f"{total(series('kvstow_ready'))} or vector(0)", "ready"),
                    bad_below=1,
                ),
                Figure(
                    "Internal errors",
                    Unit.COUNT,
                    "Errors of the daemons themselves since their start. Not zero: report the line `bug` of the log and "
                    "restart that daemon; see the runbook, KvstowInternalErrors.",
                    Query(total(series("kvstow_internal_errors_total")), "errors"),
                    bad_from=1,
                ),
            ),
        ),
        Row(
            "Hits and speed",
            (
                Chart(
                    "Hit ratio by model",
                    Unit.SHARE,
                    "Share of the blocks looked up that were found. A fall after a reset or a restart is the cache "
                    "filling anew; a slow fall with rising evictions says that memory is short: see the memory dashboard.",
                    (
                        Query(
                            ratio(
                                total(
                                    rate("kvstow_lookup_blocks_total", _HITS), "tenant", "model"
                                ),
                                total(rate("kvstow_lookup_blocks_total"), "tenant", "model"),
                            ),
                            "{{tenant}} {{model}}",
                        ),
                    ),
                    full=True,
                ),
                Chart(
                    "Blocks looked up",
                    Unit.PER_SECOND,
                    "Blocks that engines asked for, by result. Much `pending`: engines ask for what another one is just "
                    "storing; that resolves itself. Nothing at all: no engine is connected, or all requests opt out.",
                    (Query(total(rate("kvstow_lookup_blocks_total"), "result"), "{{result}}"),),
                    stacked=True,
                ),
                Chart(
                    "Copied",
                    Unit.BYTES_PER_SECOND,
                    "Bytes that moved, over time: stores out of engines, loads into them. Stores without loads mean that "
                    "nobody profits yet.",
                    (Query(total(rate("kvstow_copy_bytes_sum"), "direction"), "{{direction}}"),),
                ),
                Chart(
                    "Speed of a copy",
                    Unit.BYTES_PER_SECOND,
                    "Bytes moved per second of copying. Far below what the memory or the bus can do: many copies share "
                    "it (see copies in flight), blocks are small, or the pool lies on another NUMA node.",
                    (
                        Query(
                            ratio(
                                total(rate("kvstow_copy_bytes_sum"), "direction"),
                                total(rate("kvstow_copy_duration_seconds_sum"), "direction"),
                            ),
                            "{{direction}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Pressure",
            (
                Chart(
                    "Host pool",
                    Unit.BYTES,
                    "What the pool is used for. A pool full of `ready` is what it is for. Much `held` or `writing` leaves "
                    "no room for stores; `quarantined` that stays belongs to copies that do not end.",
                    (Query(total(series("kvstow_pool_bytes"), "state"), "{{state}}"),),
                    stacked=True,
                ),
                Chart(
                    "Blocks that left or did not get in",
                    Unit.PER_SECOND,
                    "Evictions make room for newer blocks. `no_space`: a store found everything held or under a copy. "
                    "Both together with a low hit ratio ask for a larger pool.",
                    (
                        Query(total(rate("kvstow_evicted_blocks_total")), "evicted"),
                        Query(
                            total(rate("kvstow_offered_blocks_total", 'status="no_space"')),
                            "no space",
                        ),
                    ),
                ),
                Chart(
                    "Age at eviction",
                    Unit.SECONDS,
                    "How long ago blocks had been used when they made room for others. If engines ask again after longer "
                    "than this, a larger pool means more hits. Nothing is drawn while nothing is evicted.",
                    tuple(
                        Query(
                            quantile(share, "kvstow_eviction_age_seconds"), f"p{share * 100:.0f}"
                        )
                        for share in (0.1, 0.5)
                    ),
                ),
                Chart(
                    "Time of a lookup",
                    Unit.SECONDS,
                    "How long the daemon takes to answer a lookup. Engines wait for it while they schedule: above some "
                    "milliseconds see the lock, and whether the machine has CPU to spare.",
                    tuple(
                        Query(
                            quantile(
                                share, "kvstow_rpc_duration_seconds", matchers=('method="Lookup"',)
                            ),
                            f"p{share * 100:.0f}",
                        )
                        for share in (0.5, 0.99)
                    ),
                ),
            ),
        ),
        Row(
            "Alerts",
            (
                Listing(
                    "Firing alerts",
                    Unit.COUNT,
                    "Alerts of deploy/prometheus that fire now. Each has its section in docs/runbook.md.",
                    Query(
                        total(
                            series("ALERTS", 'alertname=~"Kvstow.+"', 'alertstate="firing"'),
                            "alertname",
                            "severity",
                            "instance",
                        ),
                        "{{alertname}}",
                    ),
                ),
            ),
        ),
    ),
)
