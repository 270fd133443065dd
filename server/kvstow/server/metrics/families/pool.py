"""Families about the host pool."""

from kvstow.server.metrics.family import Family, Kind

POOL = Family(
    "kvstow_pool_bytes",
    Kind.GAUGE,
    "bytes",
    "Bytes of the host pool; the states add up to its size. A slot is `free`; `ready` with a block that may be "
    "evicted; `held` by a lease or a running load; `writing` under a store; or in `quarantine` under the copy of an "
    "abandoned store, until that has ended. `unassigned` belongs to no slot size yet, `unusable` is left over at "
    "the ends of extents.",
    (
        (
            "state",
            "`unassigned`, `free`, `ready`, `held`, `writing`, `quarantined`, `unusable`",
        ),
    ),
)
EXTENTS = Family(
    "kvstow_extents",
    Kind.GAUGE,
    "extents",
    "Extents of the host pool by the slot size that they serve.",
    (("slot_bytes", "bytes of a slot; `none` for extents that serve no size yet"),),
)

ALL = (
    POOL,
    EXTENTS,
)
