"""docs/cli.md: its command lines run, its tables have their columns, and its fields are those of `--json`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cli.running import run
from kvstow.cli.app import app
from kvstow.cli.fates import FATES
from support.client_engine import connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import wait_for

PAGE = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
EXAMPLES = re.findall(r"^```console\n\$ kvstow (.*)\n((?:.*\n)*?)```", PAGE, re.MULTILINE)
HEADINGS = ("ago  ", "space  ", "session  ", "slot size  ", "setting  ", "index  ")
"""Begin the line of a table that names its columns."""

JSON = {
    "doctor": ["doctor"],
    "status": ["status"],
    "spaces": ["spaces"],
    "sessions": ["sessions"],
    "transfers": ["transfers", "--stuck"],
    "misses": ["misses"],
    "why-miss": ["why-miss", "00" * 16],
    "reset": ["reset", "--all", "--yes"],
    "top": ["top", "--count", "1", "--interval", "0.1"],
}
NOT_HERE = {"gpus[].uuid", "gpus[].name", "gpus[].trouble"}
"""Fields of what this machine may not have."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kvstowd]:
    """The daemon of the examples: its one engine has a store that hangs."""
    settings = {"debug_service": True, "pool_size": "64MiB", "max_deadline_s": 0.5}
    directory = tmp_path_factory.mktemp("kvstow")
    with (
        running_kvstowd(directory, **settings) as running,
        connected_engine(running.target) as engine,
    ):
        engine.store([1, 2, 3], [0, 1, 2])
        engine.lookup([1, 2, 3, 4])
        with running.held_stores():
            engine.begin_store([8, 9], [8, 9])
            wait_for(lambda: "1 of 1" in run(running, "transfers", "--stuck").stdout, "a deadline")
            yield running


def columns(output: str) -> list[list[str]]:
    """The lines that name columns, as words."""
    lines = [line.strip() for line in output.splitlines()]
    return [line.split() for line in lines if line.startswith(HEADINGS)]


def fields(value: object, at: str = "") -> Iterator[str]:
    """The names of all leaves, as the page writes them."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        for item in value:
            yield from fields(item, f"{at}[]")
    elif isinstance(value, dict):
        for name, item in value.items():
            below = "NAME" if at == "settings" else name
            yield from fields(item, f"{at}.{below}" if at else below)
    else:
        yield at


def test_every_command_has_a_section() -> None:
    command = typer.main.get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    assert set(SECTIONS) == set(command.commands)
    assert {words.split()[0] for words, _ in EXAMPLES} == set(SECTIONS) - {"replay"}


@pytest.mark.parametrize(("words", "output"), EXAMPLES)
def test_an_example_runs_and_shows_what_the_page_says(
    daemon: Kvstowd, words: str, output: str
) -> None:
    result = run(daemon, *words.split())
    assert result.exit_code == (1 if words == "doctor" else 0), result.output
    assert result.stderr == ""
    assert columns(result.stdout) == columns(output) or not output
    if words == "doctor":
        checks = re.findall(r"^(?:ok|warning|failure) +(\S+)", output, re.MULTILINE)
        assert {"socket", "daemon", "transfers", "clock"} <= set(checks)
        assert "failure  transfers        1 are past their deadline" in result.stdout


@pytest.mark.parametrize("section", JSON)
def test_the_fields_of_json_are_those_of_the_page(daemon: Kvstowd, section: str) -> None:
    printed = run(daemon, *JSON[section], "--json").stdout
    found = set(fields(json.loads(printed)))
    listed = re.findall(
        r"^\| field \|.*\n\|---\|---\|\n((?:\|.*\n)+)", SECTIONS[section], re.MULTILINE
    )
    described = {name for rows in listed for row in rows.splitlines() for name in cells(row)}
    assert described - found <= NOT_HERE
    assert found - described <= {"gpus"}  # none is here


def cells(row: str) -> list[str]:
    """The names in the first column of a row."""
    return re.findall(r"`([^`]+)`", row.split("|")[1])


def test_every_check_of_the_doctor_is_described() -> None:
    from_page = re.findall(r"^\| `([a-z-]+)` \| ", SECTIONS["doctor"], re.MULTILINE)
    source = Path(__file__).parents[2] / "client/kvstow/cli/doctor"
    named = {
        name
        for module in source.glob("*.py")
        for name in re.findall(r'(?:fine|warning|failure)\(\s*"([a-z-]+)"', module.read_text())
    }
    assert named == set(from_page) - {"target"}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_help_says_what_a_command_does(section: str, daemon: Kvstowd) -> None:
    result = run(daemon, section, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_every_fate_is_described() -> None:
    rows = re.search(
        r"^\| fate \|.*\n\|---\|---\|\n((?:\|.*\n)+)", SECTIONS["why-miss"], re.MULTILINE
    )
    assert rows is not None
    assert {name for row in rows[1].splitlines() for name in cells(row)} == set(FATES)
