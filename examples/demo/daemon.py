"""The demo's daemon: the process, its metrics, and the faults it can be told to have."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from prometheus_client.parser import text_string_to_metric_families

from kvstow.client import Budgets, Client, Unreachable
from kvstow.v1 import cache_pb2, debug_pb2, debug_pb2_grpc, transfer_pb2

POOL_SIZE = "512MiB"
PATIENCE_S = 60.0


class DaemonBroken(Exception):
    """The daemon ended, or something that it must do did not come about."""


class DaemonProcess:
    """A kvstowd of our own, on a socket in a directory of our own.

    Args:
        directory: For its socket and its log.

    Attributes:
        target: Where it listens, as clients name it.
        client: Connected to it.
    """

    def __init__(self, directory: Path) -> None:
        self._log = directory / "kvstowd.log"
        self.target = f"unix:{directory / 'kvstow.sock'}"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "kvstow.server"),
                    *("--socket", str(directory / "kvstow.sock")),
                    *("--pool-size", POOL_SIZE),
                    *("--metrics-listen", "127.0.0.1:0"),
                    *("--log-format", "json"),
                    "--debug-service",
                ],
                stderr=log,
                start_new_session=True,  # Ctrl-C is the demo's
            )
        self.client = Client(self.target, Budgets(control_s=PATIENCE_S))
        self._channel = grpc.insecure_channel(self.target)
        self._debug = debug_pb2_grpc.DebugServiceStub(self._channel)

    def wait_ready(self) -> cache_pb2.GetServerInfoResponse:
        """Wait until it takes work; return who it is."""
        found: list[cache_pb2.GetServerInfoResponse] = []

        def is_ready() -> bool:
            if self._process.poll() is not None:
                raise DaemonBroken(f"kvstowd did not start:\n{self._log.read_text()}")
            try:
                found[:] = [self.client.server_info()]
            except Unreachable:
                return False
            return found[0].state == cache_pb2.SERVER_STATE_READY

        wait_for(is_ready, "kvstowd is ready")
        return found[0]

    def hold_stores(self, session: int) -> int:
        """Hold every store of a session back from now on; return what `release` wants."""
        fault = debug_pb2.Fault(
            session_id=session,
            kind=transfer_pb2.TRANSFER_KIND_STORE,
            hold=debug_pb2.HoldCopy(),
        )
        added: debug_pb2.AddFaultResponse = self._debug.AddFault(
            debug_pb2.AddFaultRequest(fault=fault), timeout=PATIENCE_S
        )
        return added.fault_id

    def wait_held(self, fault: int) -> None:
        """Wait until every transfer is held: until then one may be queued, and would end at once."""

        def are_held() -> bool:
            listed = self._debug.ListFaults(debug_pb2.ListFaultsRequest(), timeout=PATIENCE_S)
            held: int = sum(each.held_count for each in listed.faults if each.fault_id == fault)
            return 0 < held == self.client.administration.transfers().total_count

        wait_for(are_held, "its stores are held")

    def release(self, fault: int) -> None:
        """Let the stores go that were held."""
        self._debug.ReleaseFault(debug_pb2.ReleaseFaultRequest(fault_id=fault), timeout=PATIENCE_S)

    def metrics(self) -> dict[str, float]:
        """What its Prometheus endpoint says: by name, with the labels in braces if there are any."""
        with urllib.request.urlopen(
            self._logged("metrics served")["url"], timeout=PATIENCE_S
        ) as reply:
            text = reply.read().decode()
        return {
            _series(sample.name, sample.labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def stop(self) -> int:
        """Ask it to end, and wait; return its exit code. May be called again."""
        self._channel.close()
        self.client.close()
        self._process.terminate()
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _logged(self, event: str) -> dict[str, Any]:
        for line in self._log.read_text().splitlines():
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        raise DaemonBroken(f"kvstowd has not logged {event!r}")


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Return when the condition holds.

    Raises:
        DaemonBroken: It does not within a minute.
    """
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise DaemonBroken(f"it never came to this: {what}")
        time.sleep(0.005)


def _series(name: str, labels: dict[str, str]) -> str:
    """Name a series; which tenant and model it is of goes without saying, there is one."""
    shown = ",".join(
        value for label, value in sorted(labels.items()) if label not in ("tenant", "model")
    )
    return f"{name}{{{shown}}}" if shown else name
