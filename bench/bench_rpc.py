"""Calls of engine processes to a daemon process over its Unix socket, as the client library makes them.

Every process makes all kinds of calls, one at a time, in an order that is shuffled anew for each round: so all kinds
meet the same noise, and none always follows the one that leaves most behind. `empty` asks for the server's information:
a call without keys, session or lock, which is what any other call can at best come down to.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
from rich.table import Table

from kvstow.client import Hold

from .daemon import running_daemon
from .engine import Engine, open_engine
from .figures import spread
from .goals import Goal
from .keys import Keys
from .part import Part
from .scale import Scale

BLOCK_BYTES = 64
"""Next to nothing is copied, so that a store is all calls."""

KEY_COUNTS = (1, 16, 256, 2048)
CALLERS = (1, 8)
ROUNDS = {Scale.FULL: 1000, Scale.QUICK: 150, Scale.TINY: 5}
WARM_UP_ROUNDS = 20
START_S = 600.0
"""So many processes take their time to begin on a machine that is busy."""
GOAL = 1.5

_together: Barrier
"""All callers of one measurement meet here; set once, when a caller's process begins."""


def parts(scale: Scale) -> list[Part]:
    """One part for each number of callers."""
    return [
        Part(f"{callers} calling", partial(measure, callers, ROUNDS[scale] // callers + 1))
        for callers in CALLERS
    ]


def measure(callers: int, rounds: int) -> dict[str, Any]:
    """Let so many processes call at a time.

    Args:
        callers: processes.
        rounds: how often each makes each kind of call.
    """
    context = get_context("spawn")
    with (
        running_daemon(pool_size="64MiB", extent_size="1MiB") as target,
        ProcessPoolExecutor(
            callers, context, initializer=_meet_at, initargs=(context.Barrier(callers),)
        ) as pool,
    ):
        found = list(pool.map(partial(_call, target, rounds), range(callers)))
    return {
        "callers": callers,
        "calls": {name: spread([t for times in found for t in times[name]]) for name in found[0]},
    }


def _meet_at(barrier: Barrier) -> None:
    global _together
    _together = barrier


def _call(target: str, rounds: int, seed: int) -> Mapping[str, Sequence[float]]:
    """Make all calls of one process; returns their seconds by name."""
    keys = Keys(KEY_COUNTS[-1] + WARM_UP_ROUNDS + rounds, seed)
    with open_engine(target, BLOCK_BYTES, KEY_COUNTS[-1]) as engine:
        calls = list(_calls(engine, keys).items())
        times: dict[str, list[float]] = {name: [] for name, _ in calls}
        shuffled = random.Random(seed)
        _together.wait(START_S)
        for turn in range(WARM_UP_ROUNDS + rounds):
            shuffled.shuffle(calls)
            for name, call in calls:
                began = time.perf_counter()
                call()
                if turn >= WARM_UP_ROUNDS:
                    times[name].append(time.perf_counter() - began)
        return times


def _calls(engine: Engine, keys: Keys) -> dict[str, Callable[[], object]]:
    """Every kind of call, by name; what they look up is stored before."""
    stored = keys.fresh(np.arange(KEY_COUNTS[-1]))
    engine.store(stored, range(len(stored)))
    unused = count(len(stored))

    def store() -> None:
        engine.store(keys.fresh(np.array([next(unused)])), [0])

    lookups = {
        f"lookup {n}": partial(engine.session.lookup, "bench", stored[:n], hold=Hold.NONE)
        for n in KEY_COUNTS
    }
    held = {"lookup 256, held": partial(engine.session.lookup, "bench", stored[:256])}
    return {"empty": engine.client.server_info, **lookups, **held, "store, done": store}


def tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """Times, and their ratio to the empty call."""
    shown = Table(title="rpc: round trips in µs with 1 or more calling; ratio of p50 to empty")
    shown.add_column("call", no_wrap=True)
    for result in results:
        for name in ("p50", "p99", "ratio"):
            shown.add_column(f"{result['callers']}: {name}", justify="right")
    for name in results[0]["calls"]:
        cells = []
        for result in results:
            call = result["calls"][name]
            cells += [
                f"{call['p50_us']:.0f}",
                f"{call['p99_us']:.0f}",
                f"{_ratio(result, name):.2f}",
            ]
        shown.add_row(name, *cells)
    return [shown]


def goals(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """A lookup of a long prompt costs little more than a call."""
    return [
        Goal(
            f"rpc: lookup of 256 keys, p50 to the empty call's, {result['callers']} calling",
            _ratio(result, "lookup 256"),
            GOAL,
        )
        for result in results
    ]


def _ratio(result: dict[str, Any], name: str) -> float:
    ratio: float = result["calls"][name]["p50_us"] / result["calls"]["empty"]["p50_us"]
    return ratio
