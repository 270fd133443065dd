"""What the runbook tells people to look for exists: commands, settings, metrics, lines of the log."""

import re

import pytest
from typer.testing import CliRunner

from kvstow.cli.app import app
from kvstow.server.config import Config
from kvstow.server.metrics.families import SECTIONS
from metrics.prometheus import ROOT
from metrics.written import panels

RUNBOOK = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
DESCRIPTIONS = "".join(panel["description"] for _, panel in panels())
QUOTED = re.findall(r"`([^`]+)`", (RUNBOOK + DESCRIPTIONS).replace("\n", " "))
COMMANDS = sorted({text for text in QUOTED if text.startswith("kvstow ")})
SOURCE = "".join(
    path.read_text(encoding="utf-8") for path in (ROOT / "server/kvstow/server").rglob("*.py")
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_exists(command: str) -> None:
    _, name, *options = command.split()
    plain = {"COLUMNS": "200", "NO_COLOR": "1"}
    helped = CliRunner().invoke(app, [name, "--help"], env=plain)
    assert helped.exit_code == 0, helped.output
    for option in options:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", helped.stdout), helped.stdout


def test_a_name_with_underscores_is_a_setting_a_metric_or_a_label_value() -> None:
    families = [family for _, families in SECTIONS for family in families]
    values = {
        value for f in families for _, text in f.labels for value in re.findall(r"\w+", text)
    }
    known = {*Config.model_fields, *values, *(family.name for family in families)}
    assert {text for text in QUOTED if re.fullmatch(r"[a-z]+(_[a-z]+)+", text)} <= known


def test_a_quoted_line_of_the_log_is_in_the_code() -> None:
    lines = [t for t in QUOTED if re.fullmatch(r"[a-z]+( [a-z']+)+", t) and t not in COMMANDS]
    assert len(lines) >= 3
    for line in lines:
        assert line in SOURCE, line
