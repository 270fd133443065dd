"""Runs every scenario script; `pytest tests/scenarios --rewrite` writes the outcomes as they come."""

from functools import partial
from pathlib import Path

import pytest

from scenarios.script import replay
from scenarios.verbs import run
from scenarios.world import World

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text(encoding="utf-8")
    replayed = replay(text, partial(run, World()))
    if request.config.getoption("--rewrite", default=False):
        path.write_text(replayed, encoding="utf-8")
    else:
        assert replayed == text


def test_there_are_scripts() -> None:
    assert SCRIPTS


@pytest.mark.parametrize("text", ["# only prose\n", "slots\n", "slots\nsweep\n"])
def test_a_script_that_shows_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="step"):
        replay(text, partial(run, World()))


def test_an_outcome_that_differs_shows() -> None:
    script = "open A\n----\n{}\n\nstore A 1 keys=1\n----\n{}\n"
    right = script.format("A joins m at generation 1", "1 ACCEPTED in slots 0")
    assert replay(script.format("B joins m", "nothing"), partial(run, World())) == right
