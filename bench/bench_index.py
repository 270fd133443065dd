"""The ledger by the number of blocks it keeps, next to a bare dictionary of the same keys: see `index_case`.

Every case is measured in a fresh process, so that none inherits the memory of another.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
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
        Part(
            f"{entries // 1000:,}k blocks, {policy}",
            partial(measure, entries, policy, ROUNDS[scale]),
        )
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
    for policy, cases in _by_policy(results).items():
        found += [*_lookup_goals(policy, cases), *_growth_goals(policy, cases[0], cases[-1])]
        largest = cases[-1]
        longest_ms = max(each["ms"] for each in largest["longest"].values())
        name = f"index, {policy}, {_thousands(largest)} blocks"
        found.append(Goal(f"{name}: longest call, ms", longest_ms, LONGEST_CALL_MS))
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

    def name(request: str) -> str:
        return f"index, {policy}: {request}, {_thousands(large)} to {_thousands(small)} blocks"

    return [
        Goal(name("refused store"), growth("refused store", "ledger"), FLAT_GOAL),
        *(
            Goal(
                f"{name(request)}, beyond the growth of bare probes",
                growth(request, "ledger") / growth(request, "bare"),
                FLAT_GOAL,
            )
            for request in ("refused store", "evict and store")
        ),
    ]


def _costs(results: Sequence[dict[str, Any]]) -> Table:
    policies = _by_policy(results)
    shown = Table(title="index: ns a block; ratio to a bare dictionary")
    for name in ("request", "blocks"):
        shown.add_column(name)
    for policy in policies:
        for name in (policy, "bare", "ratio"):
            shown.add_column(name, justify="right")
    for request in results[0]["ns_per_block"]:
        for cases in zip(*policies.values(), strict=True):
            costs = [case["ns_per_block"][request] for case in cases]
            cells = [(f"{c['ledger']:.0f}", f"{c['bare']:.0f}", f"{_ratio(c):.2f}") for c in costs]
            shown.add_row(request, _thousands(cases[0]), *chain(*cells))
        shown.add_section()
    return shown


def _longest(results: Sequence[dict[str, Any]]) -> Table:
    cases = [cases[-1] for cases in _by_policy(results).values()]
    shown = Table(title=f"index: longest calls at {_thousands(cases[0])} blocks")
    shown.add_column("call")
    for case in cases:
        shown.add_column(f"{case['policy']}, ms", justify="right")
        shown.add_column("page faults", justify="right")
    for name in cases[0]["longest"]:
        found = [case["longest"][name] for case in cases if name in case["longest"]]
        shown.add_row(name, *chain(*((f"{f['ms']:.2f}", f"{f['page_faults']}") for f in found)))
    return shown


def _by_policy(results: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    policies: dict[str, list[dict[str, Any]]] = {}
    for result in results:
        policies.setdefault(result["policy"], []).append(result)
    return policies


def _thousands(case: dict[str, Any]) -> str:
    return f"{case['entries'] // 1000:,}k"


def _ratio(cost: dict[str, float]) -> float:
    return cost["ledger"] / cost["bare"]
