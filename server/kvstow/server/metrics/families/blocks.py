"""Families about blocks: what was looked up, offered, stored, loaded and given up, mostly by tenant and model."""

from kvstow.server.metrics.family import Family, Kind

_SPACE = (
    ("tenant", "the tenant of the space"),
    ("model", "the model of the space"),
)

BLOCKS = Family(
    "kvstow_blocks",
    Kind.GAUGE,
    "blocks",
    "Blocks in the cache. A block that is `writing` is not found by lookups yet.",
    (*_SPACE, ("state", "`ready`, `writing`")),
)
LOOKUPS = Family(
    "kvstow_lookups_total",
    Kind.COUNTER,
    "lookups",
    "Lookups that were answered. A request that opted out of reading makes none.",
    _SPACE,
)
LOOKUP_BLOCKS = Family(
    "kvstow_lookup_blocks_total",
    Kind.COUNTER,
    "blocks",
    "Blocks that lookups asked for; the results add up to all of them. `hit`: in the leading run of READY blocks; "
    "`pending`: right behind it, and still being written; `miss`: the rest. `hit` over the sum is the hit ratio.",
    (*_SPACE, ("result", "`hit`, `pending`, `miss`")),
)
OFFERED = Family(
    "kvstow_offered_blocks_total",
    Kind.COUNTER,
    "blocks",
    "Blocks that stores offered, by what became of the offer. `no_space`: everything was held or under a copy, or "
    "blocks of another size would have had to go, of which a store takes only so many; "
    "`not_admitted`: offered too rarely so far, see `admission`.",
    (
        *_SPACE,
        ("status", "`accepted`, `already_stored`, `already_storing`, `no_space`, `not_admitted`"),
    ),
)
STORED = Family(
    "kvstow_stored_blocks_total",
    Kind.COUNTER,
    "blocks",
    "Blocks whose store ended well.",
    _SPACE,
)
LOADED = Family(
    "kvstow_loaded_blocks_total",
    Kind.COUNTER,
    "blocks",
    "Blocks whose load ended well: what engines did not have to compute.",
    _SPACE,
)
UNSTORED = Family(
    "kvstow_unstored_blocks_total",
    Kind.COUNTER,
    "blocks",
    "Blocks whose store was accepted and never ended well.",
    (*_SPACE, ("outcome", "`failed`, `abandoned`")),
)
MODEL_EVICTED = Family(
    "kvstow_model_evicted_blocks_total",
    Kind.COUNTER,
    "blocks",
    "The blocks of `kvstow_evicted_blocks_total`, by whose they were.",
    _SPACE,
)
RESETS = Family(
    "kvstow_resets_total",
    Kind.COUNTER,
    "resets",
    "Resets. A space that is dropped is reset, too.",
    _SPACE,
)
RESETS_DRAINING = Family(
    "kvstow_resets_draining",
    Kind.GAUGE,
    "resets",
    "Resets that have taken effect, while copies which began before them still run.",
    _SPACE,
)

LOOKUP_KEYS = Family(
    "kvstow_lookup_keys",
    Kind.HISTOGRAM,
    "keys",
    "Keys of each lookup, over all its groups.",
)
EVICTED = Family(
    "kvstow_evicted_blocks_total",
    Kind.COUNTER,
    "blocks",
    "Blocks that left by policy. `capacity`: to make room for others of their slot size; `reclaimed`: because their "
    "extent was taken for another slot size.",
    (("reason", "`capacity`, `reclaimed`"),),
)
EVICTION_AGE = Family(
    "kvstow_eviction_age_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "How long ago the blocks that made room for others of their slot size had been used. Two blocks of each batch stand "
    "for the batch. Engines that ask again after longer than this would find more in a larger pool.",
)
DROPPED = Family(
    "kvstow_dropped_blocks_total",
    Kind.COUNTER,
    "blocks",
    "READY blocks that left otherwise. `failed_load`: they could not be read.",
    (("reason", "`reset`, `drop_space`, `failed_load`"),),
)

ALL = (
    BLOCKS,
    LOOKUPS,
    LOOKUP_BLOCKS,
    LOOKUP_KEYS,
    OFFERED,
    STORED,
    UNSTORED,
    LOADED,
    EVICTED,
    MODEL_EVICTED,
    EVICTION_AGE,
    DROPPED,
    RESETS,
    RESETS_DRAINING,
)
