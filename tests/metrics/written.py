"""The rules, alerts and dashboards as they are written: what they query, and what they say."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from metrics.prometheus import ALERTS, ROOT, RULES

DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
_VARIABLES = {"$instance": ".*", "$__rate_interval": "3s", "$__range": "10m"}


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """One query of one panel.

    Args:
        dashboard: name of its file.
        panel: title.
        legend: how its series are called, with labels in double braces.
        expression: with values instead of Grafana's variables.
        unit: of the panel, as Grafana names it.
    """

    dashboard: str
    panel: str
    legend: str
    expression: str
    unit: str

    @property
    def name(self) -> str:
        """Tells it from all others."""
        return f"{self.dashboard}: {self.panel}, {self.legend}"


def panels() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every panel with the name of its dashboard; rows are none."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            if panel["type"] != "row":
                yield path.stem, panel


def panel_queries() -> Iterator[PanelQuery]:
    """Every query of every panel."""
    for dashboard, panel in panels():
        unit = panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            expression = target["expr"]
            for variable, value in _VARIABLES.items():
                expression = expression.replace(variable, value)
            yield PanelQuery(dashboard, panel["title"], target["legendFormat"], expression, unit)


def recording_rules() -> Mapping[str, str]:
    """What the rules record, by name."""
    return {rule["record"]: rule["expr"] for rule in _rules(RULES.read_text(encoding="utf-8"))}


def alerts() -> list[Mapping[str, Any]]:
    """The alerts."""
    return list(_rules(ALERTS.read_text(encoding="utf-8")))


def impatient_alerts() -> str:
    """The alerts, without the time for which their condition must hold."""
    text = ALERTS.read_text(encoding="utf-8")
    return re.sub(r"^ +for: .*\n", "", text, flags=re.MULTILINE)


def metric_names(expression: str) -> set[str]:
    """Names of metrics in an expression."""
    return set(re.findall(r"\b(?:kvstow|process)_\w+\b", expression))


def _rules(text: str) -> Iterator[Mapping[str, Any]]:
    for group in yaml.safe_load(text)["groups"]:
        yield from group["rules"]
