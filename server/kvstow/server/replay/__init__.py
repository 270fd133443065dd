"""Replays a trace of requests on the real ledger, without a device: what would a host pool of this size have found?

`trace` reads, `engine` asks the ledger what an engine would ask, `sizes` chooses pool sizes and compares what they gave.
Nothing here reads a clock, prints, or needs a daemon; the only I/O is reading the trace.
"""

from kvstow.server.core.policy import POLICY_NAMES

from .engine import Engine, Outcome
from .sizes import enough, ladder
from .trace import Request, Trace, TraceError, read_trace

__all__ = [
    "POLICY_NAMES",
    "Engine",
    "Outcome",
    "Request",
    "Trace",
    "TraceError",
    "enough",
    "ladder",
    "read_trace",
]
