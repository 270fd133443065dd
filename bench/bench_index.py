"""The ledger by the number of blocks it keeps, next to a bare dictionary of the same keys: see `index_case`.

Every case is measured in a fresh process, so that none inherits the memory of another.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

from rich.table import Table

from .goals import Goal
from .index_case import Case
from .part import Part
from .scale import Scale

ENTRIES = {
    Scale.FULL: (10 << 10, 100 << 10, 1000 << 10, 4000 << 10),
    Scale.QUICK: (10 << 10, 100 << 10, 1000 << 10),
    Scale.TINY: (4 << 10, 8 << 10),
}
POLICIES = {Scale.FULL: ("lru", "arc"), Scale.QUICK: ("lru",), Scale.TINY: ("lru", "arc")}
ROUNDS = {Scale.FULL: 100, Scale.QUICK: 60, Scale.TINY: 4}

LOOKUP_GOAL = 2.5
FLAT_GOAL = 1.5
LONGEST_CALL_MS = 20.0
BYTES_PER_ENTRY = 300


def parts(scale: Scale) -> list[Part]:
    """One part for each policy and size."""
    return [
        Part(f"{entries:,} blocks, {policy}", partial(measure, entries, policy, ROUNDS[scale]))
        for policy in POLICIES[scale]
        for entries in ENTRIES[scale]
    ]


def measure(entries: int, policy: str, rounds: int) -> dict[str, Any]:
    """Measure one case in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_measure, entries, policy, rounds).result()


def _measure(entries: int, policy: str, rounds: int) -> dict[str, Any]:
    return Case(entries, policy, rounds).run()


def tables(results: Sequence[dict[str, Any]]) -> list[Table]:
    """What requests cost, and the longest calls."""
    return [_costs(results), _longest(results)]


def goals(results: Sequence[dict[str, Any]]) -> list[Goal]:
    """Of each policy, smallest size against largest."""
    found = []
    for policy in dict.fromkeys(result["policy"] for result in results):
        cases = [result for result in results if result["policy"] == policy]
        found += [*_lookup_goals(policy, cases), *_growth_goals(policy, cases[0], cases[-1])]
        largest = cases[-1]
        name = f"index, {policy}, {largest['entries']:,} blocks"
        found.append(
            Goal(f"{name}: longest call, ms", max(largest["longest_ms"].values()), LONGEST_CALL_MS)
        )
        found.append(Goal(f"{name}: bytes a block", largest["bytes_per_entry"], BYTES_PER_ENTRY))
    return found


def _lookup_goals(policy: str, cases: Sequence[dict[str, Any]]) -> list[Goal]:
    requests = [name for name in cases[0]["ns_per_block"] if name.startswith("lookup")]
    return [
        Goal(
            f"index, {policy}: {request}, to bare probes, worst size",
            max(_ratio(case["ns_per_block"][request]) for case in cases),
            LOOKUP_GOAL,
        )
        for request in requests
    ]


def _growth_goals(policy: str, small: dict[str, Any], large: dict[str, Any]) -> list[Goal]:
    def growth(request: str, side: str) -> float:
        grown: float = large["ns_per_block"][request][side] / small["ns_per_block"][request][side]
        return grown

    sizes = f"{large['entries']:,} to {small['entries']:,} blocks"
    evict, refused = "evict and store", "refused store"
    return [
        Goal(f"index, {policy}: {refused}, {sizes}", growth(refused, "ledger"), FLAT_GOAL),
        Goal(
            f"index, {policy}: {evict}, {sizes}, to the growth of bare probes",
            growth(evict, "ledger") / growth(evict, "bare"),
            FLAT_GOAL,
        ),
    ]


def _costs(results: Sequence[dict[str, Any]]) -> Table:
    shown = Table(title="index: ns a block, ledger / bare dictionary = ratio")
    shown.add_column("request")
    for result in results:
        shown.add_column(f"{result['entries']:,} {result['policy']}", justify="right")
    for request in results[0]["ns_per_block"]:
        costs = [result["ns_per_block"][request] for result in results]
        shown.add_row(
            request, *(f"{c['ledger']:.0f} / {c['bare']:.0f} = {_ratio(c):.2f}" for c in costs)
        )
    shown.add_row("bytes a block", *(f"{result['bytes_per_entry']:.0f}" for result in results))
    return shown


def _longest(results: Sequence[dict[str, Any]]) -> Table:
    shown = Table(title="index: longest call in ms, and longest collections of garbage")
    shown.add_column("call")
    for result in results:
        shown.add_column(f"{result['entries']:,} {result['policy']}", justify="right")
    for name in results[-1]["longest_ms"]:
        cells = [result["longest_ms"].get(name) for result in results]
        shown.add_row(name, *("" if ms is None else f"{ms:.2f}" for ms in cells))
    return shown


def _ratio(cost: dict[str, float]) -> float:
    return cost["ledger"] / cost["bare"]
