"""What the pages name exists: commands with their options, make targets, settings, variables, tests."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.pages import ROOT, Link, documentation, prose, read
from docs.test_links import destination
from kvstow.cli.app import app
from kvstow.server.command_line import CLIENT_VARIABLES
from kvstow.server.config import PREFIX, Config

PAGES = documentation()
INLINE = {page: re.findall(r"`([^`\n]+)`", prose(page)) for page in PAGES}
COMMANDS = sorted(
    {text for texts in INLINE.values() for text in texts if re.match(r"kvstow [a-z]", text)}
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
TEST_LINKS = [
    (name, Link(page, target))
    for page in PAGES
    for name, target in re.findall(r"\[(test_\w+)\]\(([^)]+)\)", read(page))
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_named_has_its_options(command: str) -> None:
    _, name, *words = command.split()
    helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert helped.exit_code == 0
    for option in [word for word in words if word.startswith("--")]:
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", helped.stdout), helped.stdout


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    named = {target for text in INLINE[page] for target in re.findall(r"^make ([a-z-]+)", text)}
    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_variables_are_settings_or_the_client_s(page: str) -> None:
    named = set(re.findall(rf"\b{PREFIX}[A-Z]\w+", read(page))) - CLIENT_VARIABLES
    assert {name.removeprefix(PREFIX).lower() for name in named} <= set(Config.model_fields)


@pytest.mark.parametrize(("name", "link"), TEST_LINKS, ids=lambda value: str(value))
def test_a_test_that_is_named_is_in_its_file(name: str, link: Link) -> None:
    path = Path(destination(link))
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
