"""Rules, alerts, dashboards and the runbook name what exists, and nobody is left without an explanation."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from kvstow.server.metrics.families import SECTIONS
from kvstow.server.metrics.family import Family, Kind
from metrics.prometheus import ROOT
from metrics.written import DASHBOARDS, alerts, panel_queries, panels, recording_rules

RUNBOOK = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
DECLARED = {family.name: family for _, families in SECTIONS for family in families}
BY_SCRAPE = {"instance", "job", "le"}
TESTED = yaml.safe_load((ROOT / "deploy/prometheus/alerts_test.yaml").read_text(encoding="utf-8"))


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression that is written down, and where."""
    for query in panel_queries():
        yield query.name, query.expression
    yield from recording_rules().items()
    for alert in alerts():
        yield alert["alert"], alert["expr"]


def declared(name: str) -> Family | None:
    """The family of a series."""
    for suffix in ("", "_bucket", "_sum", "_count"):
        family = DECLARED.get(name.removesuffix(suffix) if suffix else name)
        if family and (not suffix or family.kind is Kind.HISTOGRAM) and name.endswith(suffix):
            return family
    return None


def values(family: Family, label: str) -> set[str]:
    """The values of a label that has only those that are listed."""
    text = dict(family.labels).get(label, "")
    return set(re.findall(r"`(\w+)`", text)) if re.fullmatch(r"(`\w+`(, )?)+", text) else set()


def matchers(text: str) -> Iterator[tuple[str, str, str]]:
    """Label, operator and value of each matcher in braces."""
    yield from re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', text)


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_what_is_queried_is_exported(where: str, expression: str) -> None:
    selectors = re.findall(r"(?<![\w:])((?:kvstow|process)_\w+)(?:\{([^}]*)\})?", expression)
    assert selectors or re.search(r"\bALERTS\b|:kvstow_|\bup\b", expression)
    for name, braces in selectors:
        family = declared(name)
        assert family is not None, name
        for label, operator, value in matchers(braces):
            assert label in {*family.label_names, *BY_SCRAPE}, f"{name} has no label {label}"
            known = values(family, label)
            assert (
                not known or (operator == "=~" and value == ".*") or {*value.split("|")} <= known
            )
    for record in re.findall(r"\w+:kvstow_\w+:\w+", expression):
        assert record in recording_rules(), record


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_means_and_where_to_read_on(alert: Mapping[str, Any]) -> None:
    name, notes = alert["alert"], alert["annotations"]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert "$labels.instance" in notes["summary"]
    assert re.search(r"\$labels|\$value", notes["description"])
    assert notes["runbook_url"] == f"docs/runbook.md#{name.lower()}"
    section = RUNBOOK.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for part in ("**It means**", "**Look at**", "**Do**"):
        assert section.count(f"\n{part} ") == 1, f"{name}: {part}"


def test_the_runbook_has_no_section_without_an_alert() -> None:
    headings = re.findall(r"^## (Kvstow\w+)$", RUNBOOK, re.MULTILINE)
    assert headings == [alert["alert"] for alert in alerts()]
    targets = re.findall(r"\(#(\w+)\)", RUNBOOK)
    assert {*targets} <= {heading.lower() for heading in headings}


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_is_tested_to_fire_and_to_end(alert: Mapping[str, Any]) -> None:
    cases = [case for test in TESTED["tests"] for case in test["alert_rule_test"]]
    mine = [case["exp_alerts"] for case in cases if case["alertname"] == alert["alert"]]
    assert [bool(expected) for expected in mine] == [True, False]


def test_the_dashboards_are_what_their_code_says() -> None:
    check = [sys.executable, "-m", "deploy.grafana", "--check"]
    assert subprocess.run(check, cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("dashboard", "panel"),
    list(panels()),
    ids=lambda value: value if isinstance(value, str) else value["title"],
)
def test_a_panel_has_a_unit_and_says_what_it_means(
    dashboard: str, panel: Mapping[str, Any]
) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["description"].endswith(".")
    assert len(panel["description"].split()) >= 4
    assert panel["datasource"]["uid"] == "${datasource}"
    letters = [target["refId"] for target in panel["targets"]]
    assert letters == list("ABCDEF"[: len(letters)])
    for target in panel["targets"]:
        assert 'instance=~"$instance"' in target["expr"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_lets_its_reader_choose(path: Any) -> None:
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    assert dashboard["uid"] == f"kvstow-{path.stem}"
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert names == ["datasource", "instance"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert ids == list(range(1, len(ids) + 1))
