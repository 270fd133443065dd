"""Every metric family of the daemon: its name, type, unit, meaning and labels.

`docs/metrics.md` is made from these tables, and what collects fills in their rows: a family that is not here cannot be
exported. Names are stable: one that is in use keeps its meaning.
"""

from kvstow.server.metrics.family import Family

from . import blocks, pool, service, sessions, transfers

SECTIONS: tuple[tuple[str, tuple[Family, ...]], ...] = (
    ("The daemon", service.ALL),
    ("The host pool", pool.ALL),
    ("Blocks", blocks.ALL),
    ("Transfers, copies and devices", transfers.ALL),
    ("Sessions, leases and streams", sessions.ALL),
    ("The process", service.PROCESS),
)
"""All families, in the order of the documentation."""
