"""kvstowd as a process of its own, for as long as a measurement lasts."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvstow.client import Client, Unreachable
from kvstow.v1.cache_pb2 import SERVER_STATE_READY

START_S = 60.0
END_S = 60.0
"""Longer than the grace time of its copies and what comes after it."""

POLL_S = 0.05


@contextmanager
def running_daemon(**settings: object) -> Iterator[str]:
    """Start a daemon with these settings, wait until it is ready, and end it afterwards; gives its target."""
    with tempfile.TemporaryDirectory(prefix="kvstow-bench-") as directory:
        socket = Path(directory, "kvstow.sock")
        given = {"socket": socket, "metrics_listen": "", "log_level": "warning", **settings}
        flags = [_flag(name.replace("_", "-"), value) for name, value in given.items()]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("KVSTOW_")
        }
        daemon = subprocess.Popen([sys.executable, "-m", "kvstow.server", *flags], env=environment)
        try:
            _wait_ready(daemon, f"unix:{socket}")
            yield f"unix:{socket}"
        finally:
            daemon.terminate()
            try:
                daemon.wait(END_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                raise


def _flag(name: str, value: object) -> str:
    """A setting as the command line gives it; one that is true or false takes no value."""
    match value:
        case True:
            return f"--{name}"
        case False:
            return f"--no-{name}"
        case _:
            return f"--{name}={value}"


def _wait_ready(daemon: "subprocess.Popen[bytes]", target: str) -> None:
    until = time.monotonic() + START_S
    with Client(target) as client:
        while time.monotonic() < until:
            if daemon.poll() is not None:
                raise RuntimeError(f"the daemon ended with code {daemon.returncode}")
            try:
                if client.server_info().state == SERVER_STATE_READY:
                    return
            except Unreachable:
                pass
            time.sleep(POLL_S)
    raise RuntimeError(f"the daemon was not ready within {START_S} s")
