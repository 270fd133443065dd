"""Processes that a test begins: gone when it ends, also when it fails."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


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
