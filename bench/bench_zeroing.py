"""What zeroing of freed slots costs: a reset of a full pool, what is called meanwhile, and stores that follow at once.

Two daemons, one with `zero_freed` and one without, take turns.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from rich.table import Table

from kvstow.client import Hold

from .daemon import running_daemon
from .engine import PATIENCE_S, Engine, open_engine
from .figures import spread
from .goals import Goal
from .keys import KEY_BYTES
from .part import Part
from .scale import Scale

BLOCK_BYTES = 256 << 10
BLOCKS = 256
"""Of one store; the engine has memory for no more."""

CALL_KEYS = 256
POOL_BYTES = {Scale.FULL: 2 << 30, Scale.QUICK: 512 << 20, Scale.TINY: 128 << 20}
ROUNDS = {Scale.FULL: 9, Scale.QUICK: 3, Scale.TINY: 1}


def parts(scale: Scale) -> list[Part]:
    """The only part."""
    return [Part("resets", partial(measure, POOL_BYTES[scale], ROUNDS[scale]))]


def measure(pool_bytes: int, rounds: int) -> dict[str, Any]:
    """Measure.

    Args:
        pool_bytes: size of the pool of each of the daemons.
        rounds: resets of each.
    """
    store_count = pool_bytes // (BLOCK_BYTES * BLOCKS)
    with ExitStack() as stack:
        engines = {}
        for name, tenants in (("off", ""), ("on", "*")):
            daemon = running_daemon(pool_size=pool_bytes, zero_freed=tenants)
            target = stack.enter_context(daemon)
            engine = open_engine(target, BLOCK_BYTES, BLOCKS)
            engines[name] = stack.enter_context(engine)
        found = [
            {name: _round(engine, store_count) for name, engine in engines.items()}
            for _ in range(rounds)
        ]
    return {
        "pool_bytes": pool_bytes,
        **{name: _summary([each[name] for each in found], pool_bytes) for name in engines},
    }


def _round(engine: Engine, store_count: int) -> dict[str, Any]:
    """A full pool is reset and left alone but for lookups, then filled, reset, and filled at once."""
    _fill(engine, store_count)
    began = time.perf_counter()
    engine.session.reset()
    reset_s = time.perf_counter() - began
    lookups: list[float] = []
    while _waits(engine) or len(lookups) < 20:
        called = time.perf_counter()
        engine.session.lookup(
            "", [os.urandom(KEY_BYTES) for _ in range(CALL_KEYS)], hold=Hold.NONE
        )
        lookups.append(time.perf_counter() - called)
        rested_s = time.perf_counter() - began
    _fill(engine, store_count)
    engine.session.reset()
    filled_s, refused = _fill(engine, store_count)
    return {
        "reset_s": reset_s,
        "rested_s": rested_s,
        "lookups": lookups,
        "filled_s": filled_s,
        "refused": refused,
    }


def _fill(engine: Engine, store_count: int) -> tuple[float, int]:
    """Store new blocks; returns the seconds that it took, and how many were refused."""
    refused, began = 0, time.perf_counter()
    for _ in range(store_count):
        keys = [os.urandom(KEY_BYTES) for _ in range(BLOCKS)]
        transfer = engine.begin_store(keys, range(BLOCKS))
        transfer.wait(PATIENCE_S)
        refused += transfer.statuses.count("N")
    return time.perf_counter() - began, refused


def _waits(engine: Engine) -> bool:
    stats = engine.client.administration.stats()
    return any(slots.zeroing_count for slots in stats.slots)


def _summary(rounds: Sequence[dict[str, Any]], pool_bytes: int) -> dict[str, Any]:
    """Medians over all rounds; of lookups, of all."""
    fastest = sorted(round["rested_s"] for round in rounds)[len(rounds) // 2]
    return {
        "reset": spread([round["reset_s"] for round in rounds]),
        "rested_s": fastest,
        "gigabytes_per_second": pool_bytes / fastest / 1e9,
        "lookup": spread([seconds for round in rounds for seconds in round["lookups"]]),
        "filled_s": sorted(round["filled_s"] for round in rounds)[len(rounds) // 2],
        "refused": max(round["refused"] for round in rounds),
    }


def tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """On next to off."""
    (result,) = results
    shown = Table(title=f"zeroing: resets of a full pool of {result['pool_bytes'] >> 20} MiB")
    for name in ("", "off", "on"):
        shown.add_column(name, justify="right" if name else "left")
    off, on = result["off"], result["on"]
    rows = {
        "reset, p50 µs": ("reset", "p50_us"),
        "lookup of 256 after it, p50 µs": ("lookup", "p50_us"),
        "p99 µs": ("lookup", "p99_us"),
    }
    for label, (kind, quantile) in rows.items():
        shown.add_row(label, *(f"{each[kind][quantile]:.0f}" for each in (off, on)))
    shown.add_row("zeroed within, ms", "", f"{on['rested_s'] * 1e3:.0f}")
    shown.add_row("GB/s", "", f"{on['gigabytes_per_second']:.1f}")
    shown.add_row(
        "filled at once after a reset, s", f"{off['filled_s']:.2f}", f"{on['filled_s']:.2f}"
    )
    shown.add_row("blocks refused in it, at most", str(off["refused"]), str(on["refused"]))
    return [shown]


def goals(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """None was set."""
    return []
