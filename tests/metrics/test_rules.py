"""What Prometheus' own tool says of the rules: `make test-operate`."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from metrics.prometheus import ALERTS, BINARIES, ROOT, RULES
from metrics.written import panel_queries

pytestmark = pytest.mark.prometheus


def promtool(*arguments: str | Path) -> None:
    """Run it; what it complains of fails the test."""
    done = subprocess.run(
        [BINARIES / "promtool", *arguments],
        cwd=RULES.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_rules_are_well_formed() -> None:
    promtool("check", "rules", "--lint-fatal", RULES, ALERTS)


@pytest.mark.parametrize("name", ["deploy/compose/prometheus.yaml", "examples/prometheus.yaml"])
def test_the_configurations_are_well_formed_and_find_the_rules(tmp_path: Path, name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    file = tmp_path / "prometheus.yaml"
    text, count = re.subn(r"- \S+/(rules|alerts)\.yaml", rf"- {RULES.parent}/\1.yaml", text)
    assert count == 2
    file.write_text(text, encoding="utf-8")
    promtool("check", "config", "--lint-fatal", file)


def test_every_alert_fires_and_ends() -> None:
    promtool("test", "rules", "alerts_test.yaml")


@pytest.mark.parametrize(
    ("panel", "series", "shown"),
    [
        ("Daemons ready", {}, [{"labels": "{}", "value": 0}]),
        ("Hit ratio", {'kvstow_lookup_blocks_total{instance="a", result="hit"}': "3x9"}, []),
    ],
)
def test_a_figure_without_daemons_or_lookups_is_no_lie(
    tmp_path: Path, panel: str, series: Mapping[str, str], shown: Sequence[Mapping[str, Any]]
) -> None:
    (expression,) = [query.expression for query in panel_queries() if query.panel == panel]
    given = [{"series": name, "values": values} for name, values in series.items()]
    asked = {"expr": expression, "eval_time": "9m", "exp_samples": shown}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [asked]}
    file = tmp_path / "figures_test.yaml"
    file.write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}), encoding="utf-8")
    promtool("test", "rules", file)
