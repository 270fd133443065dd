"""The daemon of the check: kvstowd in a process of its own, as it is installed."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.daemon import running_daemon

from .plan import Plan
from .report import Report

GIB = 1 << 30


@contextmanager
def served_on_gpu(plan: Plan, report: Report) -> Iterator[str]:
    """A daemon with a page-locked pool, and how long that took; gives its target."""
    seconds = {}
    for pin in (False, True):
        began = time.monotonic()
        settings = {
            "pool_size": plan.pool_bytes,
            "cuda": "on",
            "pin": pin,
            "copy_threads": 8,
            "log_level": "info",
        }
        with running_daemon(**settings) as target:
            seconds[pin] = time.monotonic() - began
            if pin:
                size = plan.pool_bytes / GIB
                pinning = seconds[True] - seconds[False]
                report.numbers |= {"start unpinned": seconds[False], "start": seconds[True]}
                result = (
                    f"{seconds[True]:.1f} s, {pinning:.1f} s of them to page-lock {size:.0f} GiB"
                )
                report.add("daemon", "start until ready", result)
                yield target
