"""Processes that a test begins: gone when it ends, also when it fails."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvstow.server.core.requests import Process
from kvstow.server.daemon.processes import is_ending

from .waiting import wait_for

_SLOW_TO_END = """
import ctypes, platform, sys, threading
threading.Thread(target=threading.Event().wait).start()
sys.stdin.read()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)  # exit, of this thread alone
"""


@contextmanager
def running_process(
    command: Sequence[str], stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the end; what it says on stdout can be read.

    `Popen` alone waits for the process to end by itself, whatever the test has found meanwhile.
    """
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def named(pid: int) -> Process:
    """A living process, as it would name itself."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return Process(pid, os.stat("/proc/self/ns/pid").st_ino, int(fields[19]))


class SlowToEnd:
    """A process whose first thread ends when it is told to, while another lives on.

    Args:
        process: that waits for the end of its stdin.

    Attributes:
        name: as it would name itself.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.name = named(process.pid)
        self._process = process

    def begin_to_end(self) -> None:
        """It is ending when this returns, and nobody is told of its death."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        wait_for(lambda: is_ending(self.name), "a process that is ending")


@contextmanager
def slow_to_end() -> Iterator[SlowToEnd]:
    """A process that takes as long to end as the block does."""
    command = [sys.executable, "-c", _SLOW_TO_END]
    with running_process(command, stdin=subprocess.PIPE) as process:
        yield SlowToEnd(process)
