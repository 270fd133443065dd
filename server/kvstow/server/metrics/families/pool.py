"""Families about the host pool."""

from kvstow.server.metrics.family import Family, Kind

POOL = Family(
    "kvstow_pool_bytes",
    Kind.GAUGE,
    "bytes",
    "Bytes of the host pool; the states add up to its size. `free`: slots without a block; `ready`: with a block that "
    "may be evicted; `held`: with one that a lease or a running load reads, or still to be given back by a lease or transfer "
    "that has just ended; `writing`: under a store; `quarantined`: under "
    "the copy of an abandoned store, until that has ended; `zeroing`: free slots that are being zeroed for `zero_freed`, or "
    "wait for it, of which stores may take the latter; `unassigned`: extents that serve no slot size yet; `unusable`: left "
    "over at the ends of extents.",
    (
        (
            "state",
            "`unassigned`, `free`, `ready`, `held`, `writing`, `quarantined`, `zeroing`, `unusable`",
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
PINNED = Family(
    "kvstow_pool_pinned",
    Kind.GAUGE,
    "1 or 0",
    "1 if the host pool is page-locked for the GPUs. 0 where the daemon uses none, or with the setting `pin` off: copies to and "
    "from GPUs are slow then.",
)

ALL = (
    POOL,
    EXTENTS,
    PINNED,
)
