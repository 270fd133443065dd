"""kvstowd as a process of its own, reached over its socket."""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from kvstow.v1 import debug_pb2, debug_pb2_grpc
from kvstow.v1.transfer_pb2 import TRANSFER_KIND_STORE

from .waiting import DEADLINE_S, wait_for

COMMAND = (sys.executable, "-m", "kvstow.server")
SMALL = {"pool_size": "1MiB", "metrics_listen": "127.0.0.1:0", "log_format": "json"}
WITH_A_BUG = """
import pathlib, sys, threading, time
from kvstow.server.__main__ import main

gate = pathlib.Path(sys.argv.pop(1))

def break_down():
    while not gate.exists():
        time.sleep(0.01)
    raise RuntimeError("a bug")

threading.Thread(target=break_down, daemon=True).start()
sys.exit(main())
"""
"""A daemon one of whose threads ends by an exception once a file is there."""


def flags(settings: Mapping[str, object]) -> list[str]:
    """Settings as a command line gives them."""
    given = {f"--{name.replace('_', '-')}": value for name, value in settings.items()}
    return [flag if value is True else f"{flag}={value}" for flag, value in given.items()]


def environment() -> dict[str, str]:
    """This process's, without settings of a daemon."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KVSTOW_")}


class Kvstowd:
    """A daemon in a directory of its own; a small one, unless settings say otherwise.

    Args:
        directory: for its socket.
        settings: of the daemon, by name.
    """

    def __init__(self, directory: Path, **settings: object) -> None:
        self.socket = directory / "kvstow.sock"
        self.target = f"unix:{self.socket}"
        self.lines: list[dict[str, Any]] = []
        self.output: list[str] = []
        self.process = subprocess.Popen(
            [*COMMAND, *flags({"socket": self.socket, **SMALL, **settings})],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        # A test that fails may leave it to itself: it must not keep the run of the tests from ending.
        atexit.register(self.process.kill)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_line(self, event: str) -> dict[str, Any]:
        """Wait for a line of the log and return it."""
        wait_for(
            lambda: self._find(event) or self.process.poll() is not None, f"the line {event!r}"
        )
        if self.process.poll() is not None:
            self._reader.join(DEADLINE_S)  # its last lines may be on their way
        found = self._find(event)
        assert found is not None, f"exit code {self.process.returncode}: {''.join(self.output)}"
        return found

    def wait_ready(self) -> None:
        """Wait until it takes work."""
        self.wait_line("ready")
        wait_for(self.serving, "readiness")

    def serving(self, service: str = "") -> bool:
        """What the health service says."""
        with grpc.insecure_channel(self.target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service=service)
            answer = stub.Check(request, timeout=DEADLINE_S, wait_for_ready=True)
            return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def metrics(self) -> dict[str, float]:
        """The samples of the Prometheus endpoint; labels in the order of their names."""
        url = self.wait_line("metrics served")["url"]
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            text = answer.read().decode()
        return {
            sample.name + "".join(f" {v}" for _, v in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    @contextmanager
    def held_stores(self) -> Iterator[None]:
        """Hold the stores that come meanwhile."""
        with grpc.insecure_channel(self.target) as channel:
            stub = debug_pb2_grpc.DebugServiceStub(channel)
            fault = debug_pb2.Fault(kind=TRANSFER_KIND_STORE, hold=debug_pb2.HoldCopy())
            number = stub.AddFault(debug_pb2.AddFaultRequest(fault=fault)).fault_id
            try:
                yield
            finally:
                with suppress(grpc.RpcError):  # the test may have ended the daemon
                    stub.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=number))

    def terminate(self) -> None:
        """Ask it to drain."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Take it away at once, and wait until it is gone."""
        self.process.kill()
        self.wait_exit()

    def wait_exit(self) -> int:
        """Wait until it is gone; returns its exit code."""
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return code

    def _find(self, event: str) -> dict[str, Any] | None:
        return next((line for line in self.lines if line.get("event") == event), None)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.output.append(line)
                if line.startswith("{"):
                    self.lines.append(json.loads(line))


@contextmanager
def running_kvstowd(directory: Path, **settings: object) -> Iterator[Kvstowd]:
    """A daemon that is ready, and that is gone afterwards."""
    daemon = Kvstowd(directory, **settings)
    try:
        daemon.wait_ready()
        yield daemon
    finally:
        if daemon.process.poll() is None:
            daemon.kill()
        daemon.wait_exit()


@contextmanager
def placed_kvstowd(**settings: object) -> Iterator[Kvstowd]:
    """The same in a directory of its own, whose name is short enough for a socket."""
    with (
        tempfile.TemporaryDirectory(prefix="kvstow-") as name,
        running_kvstowd(Path(name), **settings) as daemon,
    ):
        yield daemon
