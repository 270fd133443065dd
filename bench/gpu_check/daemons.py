"""The daemon of the check: kvstowd in a process of its own, as it is installed."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from bench.daemon import running_daemon

from .gpu import Served
from .plan import GIB, Plan
from .report import Report

GRACE_S = 5.0
"""What copies are given at the end; there are none then, unless something is wrong."""


@contextmanager
def served_on_gpu(plan: Plan, report: Report, *, kernel: bool = False) -> Iterator[Served]:
    """A daemon with a page-locked pool; says how long that took, and how long its end.

    Args:
        plan: sizes.
        report: told of it.
        kernel: whether a kernel copies; if not, a daemon is started without page-locking before, for comparison.
    """
    settings = {
        "pool_size": plan.pool_bytes,
        "cuda": "on",
        "copy_threads": 8,
        "log_level": "info",
        "drain_grace_s": GRACE_S,
    }
    if not kernel:
        unpinned_s = _start_unpinned(settings)
    settings["cuda_copies"] = "kernel" if kernel else "dma"
    began = time.monotonic()
    with (
        _reserved_port() as port,
        running_daemon(**settings, metrics_listen=f"127.0.0.1:{port}") as target,
    ):
        took = time.monotonic() - began
        if not kernel:
            report.numbers |= {"start unpinned": unpinned_s, "start": took}
            size = plan.pool_bytes / GIB
            words = f"{took:.1f} s, {took - unpinned_s:.1f} s of them to page-lock {size:.0f} GiB"
            report.add("daemon", "start until ready", words)
        yield Served(target, lambda: _methods(port))
        began = time.monotonic()
    if not kernel:
        took = time.monotonic() - began
        report.count("end", took)
        report.add("daemon", "from SIGTERM to its end", f"{took:.1f} s")


def _start_unpinned(settings: dict[str, object]) -> float:
    began = time.monotonic()
    with running_daemon(**settings, pin=False):
        return time.monotonic() - began


def _methods(port: int) -> list[str]:
    """How the copies of the GPUs in use are made, by the daemon's metrics."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return [
        sample.labels["method"]
        for family in families
        for sample in family.samples
        if sample.name == "kvstow_copy_method" and sample.labels["device"] != "host"
    ]


@contextmanager
def _reserved_port() -> Iterator[int]:
    """A port that the system gives to nobody else meanwhile; the daemon may bind it, too, as nobody listens here."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        yield port
