"""Families about the daemon as a process that answers."""

from kvstow.server.metrics.family import Family, Kind

BUILD_INFO = Family(
    "kvstow_build_info",
    Kind.GAUGE,
    "always 1",
    "Who the daemon is.",
    (
        ("version", "of kvstow"),
        ("policy", "`lru`, `arc`"),
        ("copy_kernel", "what copies between files and the host pool"),
    ),
)
READY = Family(
    "kvstow_ready",
    Kind.GAUGE,
    "1 or 0",
    "1 while work is taken: the host pool is prepared and the daemon does not drain.",
)
INTERNAL_ERRORS = Family(
    "kvstow_internal_errors_total",
    Kind.COUNTER,
    "errors",
    "Errors that no client can have caused: books that contradict themselves, a thread that died, an exception in a "
    "call or behind it. Each is in the log. After the first the daemon is not live and is to be restarted.",
)
REFUSALS = Family(
    "kvstow_refusals_total",
    Kind.COUNTER,
    "requests",
    "Requests that the books refused. A lookup without hits and a store without room are no refusals.",
    (("reason", "the reasons of `docs/protocol.md`"),),
)
RPC_DURATION = Family(
    "kvstow_rpc_duration_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "How long calls took inside the daemon. A stream (`Watch`) is one call, from its opening to its end.",
    (
        ("method", "the methods of `kvstow.v1` that were called"),
        ("code", "canonical gRPC codes that they ended with"),
    ),
)
CALLERS_REFUSED = Family(
    "kvstow_callers_refused_total",
    Kind.COUNTER,
    "calls",
    "Calls that were turned away for who made them: `UNAUTHENTICATED` without a token or with a wrong one, "
    "`PERMISSION_DENIED` for what the caller's role may not do.",
    (("code", "`UNAUTHENTICATED`, `PERMISSION_DENIED`"),),
)
LOCK_ACQUISITIONS = Family(
    "kvstow_lock_acquisitions_total",
    Kind.COUNTER,
    "times",
    "How often the lock around the books was taken.",
)
LOCK_HELD = Family(
    "kvstow_lock_held_seconds_total",
    Kind.COUNTER,
    "seconds",
    "How long the lock around the books was held in all: its rate is the share of time in which calls exclude each other.",
)
LOCK_HELD_MAX = Family(
    "kvstow_lock_held_max_seconds",
    Kind.GAUGE,
    "seconds",
    "The longest time since the start that the lock was held at once.",
)

ALL = (
    BUILD_INFO,
    READY,
    INTERNAL_ERRORS,
    REFUSALS,
    RPC_DURATION,
    CALLERS_REFUSED,
    LOCK_ACQUISITIONS,
    LOCK_HELD,
    LOCK_HELD_MAX,
)

PROCESS = (
    Family(
        "process_cpu_seconds_total", Kind.COUNTER, "seconds", "CPU time, all threads together."
    ),
    Family(
        "process_resident_memory_bytes",
        Kind.GAUGE,
        "bytes",
        "Memory in use, the touched part of the host pool and of mapped engine memory included.",
    ),
    Family("process_virtual_memory_bytes", Kind.GAUGE, "bytes", "Address space in use."),
    Family(
        "process_start_time_seconds",
        Kind.GAUGE,
        "seconds",
        "When the process started, in Unix time.",
    ),
    Family("process_open_fds", Kind.GAUGE, "descriptors", "Open file descriptors."),
    Family("process_max_fds", Kind.GAUGE, "descriptors", "How many may be open."),
)
"""What prometheus-client collects of the process, where there is /proc."""
