"""Families about transfers, their copies, and the devices that make them."""

from kvstow.server.metrics.family import Family, Kind

_DIRECTION = (("direction", "`store`, `load`"),)
_DEVICE = (("device", "`host` for memory in files, else the UUID of a GPU"),)
_KIND = ("kind", "`store`, `load`")

TRANSFERS = Family(
    "kvstow_transfers_total",
    Kind.COUNTER,
    "transfers",
    "Transfers that ended. `abandoned`: by a reset, a cancel, or the end of their session.",
    (_KIND, ("outcome", "`done`, `failed`, `abandoned`")),
)
IN_FLIGHT = Family(
    "kvstow_transfers_in_flight",
    Kind.GAUGE,
    "transfers",
    "Transfers that have not ended. One that is `abandoned` still owns its slots, because its copy still runs.",
    (_KIND, ("state", "`queued`, `running`, `abandoned`")),
)
OLDEST_TRANSFER = Family(
    "kvstow_oldest_transfer_age_seconds",
    Kind.GAUGE,
    "seconds",
    "Age of the oldest transfer that has not ended; 0 without any.",
)
OVERDUE = Family(
    "kvstow_overdue_transfers_total",
    Kind.COUNTER,
    "transfers",
    "Transfers that passed their deadline before they ended.",
)
STUCK = Family(
    "kvstow_stuck_transfers",
    Kind.GAUGE,
    "transfers",
    "Transfers past their deadline whose copy has begun and still runs. While a session has any, its lookups find nothing.",
)
LATE_COMPLETIONS = Family(
    "kvstow_late_completions_total",
    Kind.COUNTER,
    "copies",
    "Ends of copies whose transfer was not known any more; they change nothing.",
)
COPY_BYTES = Family(
    "kvstow_copy_bytes",
    Kind.HISTOGRAM,
    "bytes",
    "Bytes that one rank's copy moved.",
    _DIRECTION,
)
COPY_DURATION = Family(
    "kvstow_copy_duration_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Time from the start of one rank's copy to its end, waiting for the pieces of other copies included.",
    _DIRECTION,
)

DEVICE_HEALTHY = Family(
    "kvstow_device_healthy",
    Kind.GAUGE,
    "1 or 0",
    "1 while the device answers in its time. While it does not, sessions with memory on it find nothing.",
    _DEVICE,
)
COPY_METHOD = Family(
    "kvstow_copy_method",
    Kind.GAUGE,
    "1",
    "1 for the way in which the copies of a device that is in use are made. `rows` in place of `batches`: the CUDA driver has"
    " none, or has refused one; small blocks are slower then.",
    (*_DEVICE, ("method", "`threads` for memory in files; `batches`, `rows`")),
)
COPY_QUEUE_DEPTH = Family(
    "kvstow_copy_queue_depth",
    Kind.GAUGE,
    "copies",
    "Copies of single ranks that the device was given and that have not ended.",
    (*_DEVICE, *_DIRECTION),
)

ALL = (
    TRANSFERS,
    IN_FLIGHT,
    OLDEST_TRANSFER,
    OVERDUE,
    STUCK,
    LATE_COMPLETIONS,
    COPY_BYTES,
    COPY_DURATION,
    DEVICE_HEALTHY,
    COPY_METHOD,
    COPY_QUEUE_DEPTH,
)
