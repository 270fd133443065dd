"""A benchmark, and the parts that it is measured in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from .goals import Goal
from .scale import Scale


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a benchmark that is measured by itself.

    Args:
        label: what is measured, for the progress display.
        measure: measures it; its result is written as JSON.
    """

    label: str
    measure: Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark.

    Args:
        parts: what there is to measure; their results, in order, are what the others take.
        tables: shows the results.
        goals: holds them against what was promised.
    """

    parts: Callable[[Scale], Sequence[Part]]
    tables: Callable[[Sequence[dict[str, Any]]], Sequence[Table]]
    goals: Callable[[Sequence[dict[str, Any]]], Sequence[Goal]]
