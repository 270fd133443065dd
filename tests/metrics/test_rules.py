"""What Prometheus' own tool says of the rules: `make test-operate`."""

import subprocess
from pathlib import Path

import pytest

from metrics.prometheus import ALERTS, BINARIES, RULES

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


def test_every_alert_fires_and_ends() -> None:
    promtool("test", "rules", "alerts_test.yaml")
