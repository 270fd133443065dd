"""What calls cost while the daemon's copy threads run flat out, next to what they cost when nothing is copied.

One engine process stores and loads large blocks, with several transfers under way so that no copy thread is ever idle;
another makes calls. Idle and busy stretches take turns in one run, over the same connections.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np
from rich.table import Table

from kvstow.client import Hold, Transfer

from .daemon import running_daemon
from .engine import Engine, await_done, open_engine
from .figures import spread
from .goals import Goal
from .keys import KEY_BYTES, Keys
from .part import Part
from .scale import Scale

LARGE_BYTES = 4 << 20
LARGE_BLOCKS = 16
"""Blocks of one transfer."""

LANES = 4
"""Transfers under way."""

SMALL_BYTES = 64
CALL_KEYS = 256
SETTLE_S = 0.3
"""What the last stretch left behind ends, or the first transfers of the next begin."""

STRETCHES = {Scale.FULL: 6, Scale.QUICK: 2, Scale.TINY: 1}
CALLS = {Scale.FULL: 1000, Scale.QUICK: 400, Scale.TINY: 10}
"""Of each kind in one stretch."""

_copying: Event
"""Transfers are to be under way; set by the process that calls."""

_over: Event
"""No more are wanted."""


def parts(scale: Scale) -> list[Part]:
    """The only part."""
    return [Part("calls while copying", partial(measure, STRETCHES[scale], CALLS[scale]))]


def measure(stretches: int, calls: int) -> dict[str, Any]:
    """Measure.

    Args:
        stretches: idle ones, and as many busy ones.
        calls: of each kind in each stretch.
    """
    context = get_context("spawn")
    events = context.Event(), context.Event()
    with (
        running_daemon(pool_size="640MiB", extent_size="64MiB") as target,
        ProcessPoolExecutor(2, context, initializer=_share, initargs=events) as pool,
    ):
        copier = pool.submit(_copy, target)
        caller = pool.submit(_call, target, stretches, calls)
        for ended in (caller, copier):
            ended.add_done_callback(lambda _: events[1].set())
        return {"calls": caller.result(), "copied_gigabytes_per_second": copier.result()}


def _share(copying: Event, over: Event) -> None:
    global _copying, _over
    _copying, _over = copying, over


def _copy(target: str) -> float:
    """Copy whenever it is wanted; returns how much in a second of such time, in GB."""
    copied_bytes, busy_s = 0, 0.0
    with open_engine(target, LARGE_BYTES, LARGE_BLOCKS * LANES) as engine:
        while not _over.is_set():
            if not _copying.wait(SETTLE_S):
                continue
            began = time.perf_counter()
            copied_bytes += _copy_while_wanted(engine)
            busy_s += time.perf_counter() - began
    return copied_bytes / busy_s / 1e9 if busy_s else 0.0


def _copy_while_wanted(engine: Engine) -> int:
    """Store and load in turn in every lane; returns the bytes."""
    under_way: dict[int, tuple[list[bytes], Transfer]] = {}
    transfer_count = 0
    for lane in cycle(range(LANES)):
        if not _copying.is_set():
            break
        blocks = range(lane * LARGE_BLOCKS, (lane + 1) * LARGE_BLOCKS)
        stored: list[bytes] = []
        if lane in under_way:
            stored, transfer = under_way.pop(lane)
            await_done(transfer)
        if stored:
            under_way[lane] = [], engine.begin_load(stored, blocks)
        else:
            keys = [os.urandom(KEY_BYTES) for _ in blocks]
            under_way[lane] = keys, engine.begin_store(keys, blocks)
        transfer_count += 1
    for _, transfer in under_way.values():
        await_done(transfer)
    return transfer_count * LARGE_BLOCKS * LARGE_BYTES


def _call(target: str, stretches: int, count: int) -> Mapping[str, Mapping[str, dict[str, float]]]:
    """Make all calls; returns their times by kind and by what happened meanwhile."""
    keys = Keys(CALL_KEYS).fresh(np.arange(CALL_KEYS))
    with open_engine(target, SMALL_BYTES, CALL_KEYS) as engine:
        engine.store(keys, range(CALL_KEYS))
        calls: dict[str, Callable[[], object]] = {
            "empty": engine.client.server_info,
            "lookup 256": partial(engine.session.lookup, "bench", keys, hold=Hold.NONE),
        }
        times: dict[str, dict[str, list[float]]] = {
            name: {"idle": [], "copying": []} for name in calls
        }
        for stretch in range(2 * stretches):
            copying = bool(stretch % 2)
            (_copying.set if copying else _copying.clear)()
            time.sleep(SETTLE_S)
            for _ in range(count):
                for name, call in calls.items():
                    began = time.perf_counter()
                    call()
                    times[name]["copying" if copying else "idle"].append(
                        time.perf_counter() - began
                    )
        _copying.clear()
    return {
        name: {when: spread(seconds) for when, seconds in found.items()}
        for name, found in times.items()
    }


def tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """Times idle and copying, and their ratios."""
    (result,) = results
    copied = result["copied_gigabytes_per_second"]
    shown = Table(
        title=f"interference: round trips in µs, idle and while copying {copied:.1f} GB/s"
    )
    for name in ("call", "p50 idle", "copying", "ratio", "p99 idle", "copying", "ratio"):
        shown.add_column(name, justify="left" if name == "call" else "right")
    for name, call in result["calls"].items():
        cells = []
        for quantile in ("p50_us", "p99_us"):
            idle, copying = call["idle"][quantile], call["copying"][quantile]
            cells += [f"{idle:.0f}", f"{copying:.0f}", f"{copying / idle:.2f}"]
        shown.add_row(name, *cells)
    return [shown]


def goals(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """None was set: the ratio is there to be watched."""
    return []
