"""Names this process to the daemon, so that its death is seen at once."""

import os
from pathlib import Path

from kvstow.v1 import identity_pb2

_START_TIME = 22 - 3
"""Position of the start time among the fields of `/proc/self/stat` that follow the name; they are
counted from 1, and the first two, id and name, stand before."""


def this_process() -> identity_pb2.Process:
    """The calling process, told apart from a later one with the same id."""
    # The name stands in parentheses and may hold spaces and parentheses of its own.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return identity_pb2.Process(
        pid=os.getpid(),
        pid_namespace=Path("/proc/self/ns/pid").stat().st_ino,
        start_time_ticks=int(fields[_START_TIME]),
    )
