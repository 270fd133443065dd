"""Families about sessions, leases and streams."""

from kvstow.server.metrics.family import Family, Kind

SESSIONS = Family(
    "kvstow_sessions",
    Kind.GAUGE,
    "sessions",
    "Sessions, one for each engine. One whose stream is `away` ends when its grace time is over.",
    (("stream", "`open`, `away`"),),
)
SESSIONS_OPENED = Family(
    "kvstow_sessions_opened_total", Kind.COUNTER, "sessions", "Sessions that were opened."
)
SESSION_ENDS = Family(
    "kvstow_session_ends_total",
    Kind.COUNTER,
    "sessions",
    "Sessions that ended. `closed`: by the engine; `stream_lost`: the stream was away for longer than the grace "
    "time, or its reader never acknowledged; `process_died`: the engine's process ended; `shutdown`: the daemon's.",
    (("cause", "`closed`, `stream_lost`, `process_died`, `shutdown`"),),
)
LEASES = Family("kvstow_leases", Kind.GAUGE, "leases", "Leases that live.")
LEASED_BLOCKS = Family(
    "kvstow_leased_blocks",
    Kind.GAUGE,
    "blocks",
    "Blocks that leases hold; one that several hold counts for each.",
)
LEASES_EXPIRED = Family(
    "kvstow_leases_expired_total",
    Kind.COUNTER,
    "leases",
    "Leases that ran out: their engines neither loaded nor released.",
)
UNACKNOWLEDGED = Family(
    "kvstow_unacknowledged_events",
    Kind.GAUGE,
    "events",
    "Events of all sessions that their readers have not acknowledged. A session with many reports is refused new "
    "transfers; of other events the oldest are dropped.",
    (("kind", "`report` of a transfer, `other`"),),
)
STREAM_LAG = Family(
    "kvstow_stream_lag_events",
    Kind.GAUGE,
    "events",
    "Unacknowledged events of the session that is furthest behind.",
)
EVENTS_LOST = Family(
    "kvstow_events_lost_total",
    Kind.COUNTER,
    "events",
    "Events that were dropped because their reader was slow; reports of transfers never are.",
)
RESYNCS = Family(
    "kvstow_resyncs_total",
    Kind.COUNTER,
    "times",
    "How often a reader was told to look at the state of its session anew, because events were dropped. One such word stands "
    "for all that were dropped since the reader last looked.",
)

ALL = (
    SESSIONS,
    SESSIONS_OPENED,
    SESSION_ENDS,
    LEASES,
    LEASED_BLOCKS,
    LEASES_EXPIRED,
    UNACKNOWLEDGED,
    STREAM_LAG,
    EVENTS_LOST,
    RESYNCS,
)
