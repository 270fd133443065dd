"""The figures of the Grafana dashboards, in a terminal: `python -m examples.dashboards`.

Asks a Prometheus every query of every panel under deploy/grafana/dashboards, once, and prints what each says now. For
looking at an installation that has no Grafana, and for seeing that the queries work there.

Exit codes: 0, 1 if Prometheus refuses a query, or its answer to all of them is nothing; 2 if it does not answer.
"""

import argparse
import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

DASHBOARDS = Path(__file__).resolve().parents[1] / "deploy/grafana/dashboards"
TIMEOUT_S = 10.0
SHOWN_SERIES = 4
UNITS: Mapping[str, Callable[[float], str]] = {
    "percentunit": lambda value: f"{value:.1%}",
    "bytes": lambda value: f"{value / (1 << 20):.1f} MiB",
    "Bps": lambda value: f"{value / 1e6:.1f} MB/s",
    "ops": lambda value: f"{value:.3g} /s",
    "s": lambda value: f"{value:.3g} s",
    "bool_yes_no": lambda value: "yes" if value else "no",
    "short": lambda value: f"{value:g}",
}
"""How Grafana's units are written here."""


@dataclass
class PanelView:
    """A panel, and what its queries said.

    Args:
        dashboard: title.
        panel: title.
        unit: as Grafana names it.
        answers: a figure for each series.
        mistakes: what Prometheus refused.
    """

    dashboard: str
    panel: str
    unit: str
    answers: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)


class Asker:
    """Asks one Prometheus.

    Args:
        url: of the server.
        variables: what stands for the variables of Grafana.
    """

    def __init__(self, url: str, variables: Mapping[str, str]) -> None:
        self._url = url.rstrip("/")
        self._variables = variables

    def view(self, dashboard: str, panel: Mapping[str, Any]) -> PanelView:
        """Ask all queries of a panel.

        Raises:
            OSError: nobody answers.
        """
        view = PanelView(dashboard, panel["title"], panel["fieldConfig"]["defaults"]["unit"])
        for target in panel["targets"]:
            try:
                series = self._ask(target["expr"])
            except urllib.error.HTTPError as error:
                view.mistakes.append(str(json.load(error).get("error", error)))
                continue
            for one in series:
                value, name = (
                    float(one["value"][1]),
                    _legend(target["legendFormat"], one["metric"]),
                )
                if not math.isnan(value):  # a ratio or a quantile of nothing
                    view.answers.append(f"{name}: {UNITS[view.unit](value)}")
        return view

    def _ask(self, expression: str) -> list[Any]:
        for variable, value in self._variables.items():
            expression = expression.replace(variable, value)
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(
            f"{self._url}/api/v1/query?{query}", timeout=TIMEOUT_S
        ) as answer:
            return list(json.load(answer)["data"]["result"])


def _legend(form: str, labels: Mapping[str, str]) -> str:
    """The name of a series: the form has labels in double braces."""
    return re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), form).strip()


def _panels() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every panel that has queries, with the title of its dashboard."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text(encoding="utf-8"))
        for panel in dashboard["panels"]:
            if panel["type"] != "row":
                yield dashboard["title"], panel


def _show(views: list[PanelView], console: Console) -> None:
    for dashboard in dict.fromkeys(view.dashboard for view in views):
        table = Table(title=dashboard, title_justify="left", box=None, pad_edge=False)
        for column in ("panel", "now"):
            table.add_column(column, overflow="fold")
        for view in views:
            if view.dashboard == dashboard:
                shown = view.answers[:SHOWN_SERIES]
                more = len(view.answers) - len(shown)
                shown += [f"and {more} more"] if more else []
                shown += [f"refused: {mistake}" for mistake in view.mistakes]
                table.add_row(view.panel, ", ".join(shown) or "nothing yet")
        console.print(table, markup=False)
        console.print()


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.dashboards", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--url", default="http://127.0.0.1:9090", help="of Prometheus; default: %(default)s"
    )
    parser.add_argument(
        "--range", default="1m", help="over which rates are taken; default: %(default)s"
    )
    return parser.parse_args()


def main() -> int:
    """Ask and print; return the exit code."""
    options, errors = _parse_options(), Console(stderr=True)
    variables = {
        "$instance": ".*",
        "$__rate_interval": options.range,
        "$__range": options.range,
    }
    asker, panels = Asker(options.url, variables), list(_panels())
    try:
        views = [
            asker.view(*panel) for panel in track(panels, "asking", console=errors, transient=True)
        ]
    except OSError as error:
        errors.print(f"no Prometheus at {options.url}: {error}", markup=False)
        return 2
    _show(views, Console())
    answered = sum(bool(view.answers) for view in views)
    refused = sum(bool(view.mistakes) for view in views)
    print(f"{answered} of {len(views)} panels have figures, {refused} were refused")
    return 1 if refused or not answered else 0


if __name__ == "__main__":
    sys.exit(main())
