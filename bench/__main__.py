"""Run the benchmarks, show tables, and say which goals were met.

`python -m bench` runs all of them, `python -m bench index rpc` some. Figures are worth keeping only from a machine that
does little else; ratios are taken inside one run all the same.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import bench_copies, bench_index, bench_interference, bench_rpc, bench_zeroing, goals
from .machine import machine
from .part import Bench
from .scale import Scale

BENCHES: Mapping[str, Bench] = {
    "index": Bench(bench_index.parts, bench_index.tables, bench_index.goals),
    "rpc": Bench(bench_rpc.parts, bench_rpc.tables, bench_rpc.goals),
    "copies": Bench(bench_copies.parts, bench_copies.tables, bench_copies.goals),
    "interference": Bench(
        bench_interference.parts, bench_interference.tables, bench_interference.goals
    ),
    "zeroing": Bench(bench_zeroing.parts, bench_zeroing.tables, bench_zeroing.goals),
}


def measure(names: list[str], scale: Scale, console: Console) -> dict[str, list[dict[str, Any]]]:
    """Run benchmarks one after the other; returns the results of their parts by name."""
    todo = [(name, part) for name in names for part in BENCHES[name].parts(scale)]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, refresh_per_second=1) as progress:
        task = progress.add_task("", total=len(todo))
        for name, part in todo:
            progress.update(task, description=f"{name}: {part.label}")
            results[name].append(part.measure())
            progress.advance(task)
    return results


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHES):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    return arguments


def main() -> None:
    """Run what the command line names."""
    arguments = _arguments()
    names = arguments.names or list(BENCHES)
    scale = Scale.QUICK if arguments.quick else Scale.FULL
    console = Console()
    before = machine()
    results = measure(names, scale, console)
    found = [goal for name in names for goal in BENCHES[name].goals(results[name])]
    for name in names:
        for table in BENCHES[name].tables(results[name]):
            console.print(table)
    console.print(goals.table(found))
    if arguments.json:
        figures = {
            "machine": before,
            "scale": scale.value,
            "results": results,
            "goals": [goal.as_dict() for goal in found],
        }
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
