"""Every benchmark runs, and what it finds can be shown and written; how fast anything was is nobody's business here."""

import io
import json
import math
from collections.abc import Iterator

import pytest
from rich.console import Console

from bench import goals
from bench.__main__ import BENCHES, measure
from bench.machine import machine
from bench.scale import Scale


def numbers(value: object) -> Iterator[float]:
    """Every number in what JSON can hold."""
    match value:
        case dict():
            for item in value.values():
                yield from numbers(item)
        case list() | tuple():
            for item in value:
                yield from numbers(item)
        case int() | float():
            yield value


@pytest.mark.parametrize("name", BENCHES)
def test_a_benchmark_yields_finite_figures(name: str) -> None:
    console = Console(file=io.StringIO(), width=200)
    bench = BENCHES[name]

    results = measure([name], Scale.TINY, console)[name]
    for table in bench.tables(results):
        console.print(table)
    console.print(goals.table(list(bench.goals(results))))

    assert len(results) == len(bench.parts(Scale.TINY))
    found = list(numbers(json.loads(json.dumps(results))))
    assert len(found) > len(results)
    assert all(math.isfinite(number) for number in found)
    assert all(math.isfinite(goal.value) for goal in bench.goals(results))


def test_a_goal_is_a_bound_from_above_or_below() -> None:
    assert goals.Goal("time", 1.0, 1.5).met
    assert not goals.Goal("time", 2.0, 1.5).met
    assert goals.Goal("speed", 2.0, 1.5, at_least=True).met
    assert not goals.Goal("speed", 1.0, 1.5, at_least=True).met


def test_the_machine_is_described() -> None:
    facts = machine()
    assert facts["cores"] >= 1
    assert facts["processor"]
    assert json.loads(json.dumps(facts)) == facts
