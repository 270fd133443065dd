"""How the host pool is used, and whether more of it would help."""

from .parts import Chart, Dashboard, Query, Row, Unit
from .promql import largest, quantile, rate, series, total

_JOB = 'job="kvstow"'

DASHBOARD = Dashboard(
    "memory",
    "kvstow: memory",
    "How is the host pool used, who uses it, and would more of it help?",
    (
        Row(
            "The pool",
            (
                Chart(
                    "Use by state",
                    Unit.BYTES,
                    "`unassigned`, `free` and most of `zeroing` are room; `ready` may be evicted; `held`, `writing` and `quarantined` may "
                    "not; `unusable` is left over at the ends of extents. Much `unusable`: choose `extent_size` as a "
                    "multiple of the slot size.",
                    (Query(total(series("kvstow_pool_bytes"), "state"), "{{state}}"),),
                    stacked=True,
                ),
                Chart(
                    "Extents by slot size",
                    Unit.COUNT,
                    "How the pool is divided among slot sizes. They move to where they are used; two sizes that take "
                    "turns for the same extents want a larger pool.",
                    (
                        Query(
                            total(series("kvstow_extents"), "slot_bytes"), "{{slot_bytes}} bytes"
                        ),
                    ),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Blocks",
            (
                Chart(
                    "Blocks in the cache",
                    Unit.COUNT,
                    "By tenant, model and state.",
                    (
                        Query(
                            total(series("kvstow_blocks"), "tenant", "model", "state"),
                            "{{tenant}} {{model}} {{state}}",
                        ),
                    ),
                    stacked=True,
                ),
                Chart(
                    "Blocks offered",
                    Unit.PER_SECOND,
                    "What became of the blocks that engines offered. `already_stored` is another engine's work that is "
                    "shared; `not_admitted` waits for its n-th offer; `no_space` found everything held or under a copy.",
                    (Query(total(rate("kvstow_offered_blocks_total"), "status"), "{{status}}"),),
                    stacked=True,
                ),
                Chart(
                    "Stored and loaded",
                    Unit.PER_SECOND,
                    "Blocks whose copy ended well. Loads above stores: each stored block is used more than once.",
                    (
                        Query(total(rate("kvstow_stored_blocks_total")), "stored"),
                        Query(total(rate("kvstow_loaded_blocks_total")), "loaded"),
                    ),
                ),
            ),
        ),
        Row(
            "Would more memory help?",
            (
                Chart(
                    "Evicted",
                    Unit.PER_SECOND,
                    "Blocks that made room for others: of their slot size, or because their extent was taken for another "
                    "one. None: the pool is large enough for everything there is.",
                    (Query(total(rate("kvstow_evicted_blocks_total"), "reason"), "{{reason}}"),),
                ),
                Chart(
                    "Evicted by model",
                    Unit.PER_SECOND,
                    "Whose blocks made room. One model that loses much and finds little is displaced by the others.",
                    (
                        Query(
                            total(rate("kvstow_model_evicted_blocks_total"), "tenant", "model"),
                            "{{tenant}} {{model}}",
                        ),
                    ),
                ),
                Chart(
                    "Age at eviction",
                    Unit.SECONDS,
                    "How long ago blocks had been used when they made room for others. If engines ask again after longer "
                    "than this, more memory means more hits; `kvstow replay` says how much. Days: the pool is large "
                    "enough. Nothing is drawn while nothing is evicted.",
                    tuple(
                        Query(
                            quantile(share, "kvstow_eviction_age_seconds"), f"p{share * 100:.0f}"
                        )
                        for share in (0.1, 0.5, 0.9)
                    ),
                ),
            ),
        ),
        Row(
            "The process",
            (
                Chart(
                    "Resident memory",
                    Unit.BYTES,
                    "Memory of the daemon, with the touched part of the pool and of mapped engine memory. It should stay "
                    "near the pool's size; if it grows without end, report it.",
                    (
                        Query(
                            largest(series("process_resident_memory_bytes", _JOB), "instance"),
                            "{{instance}}",
                        ),
                    ),
                ),
                Chart(
                    "Open files",
                    Unit.SHARE,
                    "Of those that may be open. Each engine and each rank takes some; near 1 new ones are refused: raise "
                    "the limit of the service.",
                    (
                        Query(
                            f"{series('process_open_fds', _JOB)} / "
                            f"{series('process_max_fds', _JOB)}",
                            "{{instance}}",
                        ),
                    ),
                    full=True,
                ),
            ),
        ),
    ),
)
