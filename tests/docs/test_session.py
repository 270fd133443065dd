"""A page's commands are typed where they change nothing of the real checkout, and a failure says what they wrote."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs import session
from docs.pages import Block
from docs.session import Checkout
from support.waiting import wait_for


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which somebody has typed the commands before."""
    root = tmp_path / "root"
    for folder in (".tools/prometheus", ".venv", "examples"):
        (root / folder).mkdir(parents=True)
    (root / "examples/prometheus.yaml").touch()
    (root / ".tools/kvstowd.log").write_text("ready\n", encoding="utf-8")
    monkeypatch.setattr(session, "ROOT", root)
    return root


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "typed"
    made.mkdir()
    return made


def test_what_somebody_has_in_the_real_checkout_is_left_alone(root: Path, directory: Path) -> None:
    with Checkout(directory) as checkout:
        checkout.type(
            [Block("page", 1, "sh", "test -d .tools/prometheus; : > .tools/kvstowd.log")]
        )
    assert (root / ".tools/kvstowd.log").read_text(encoding="utf-8") == "ready\n"


@pytest.mark.usefixtures("root")
def test_a_command_that_fails_in_silence_is_told_with_what_was_logged(directory: Path) -> None:
    silent = Block("page", 7, "sh", "(echo broken > .tools/kvstowd.log; exit 5) & wait $!")
    with (
        Checkout(directory) as checkout,
        pytest.raises(
            AssertionError,
            match=r"page:7 failed with exit code 5:\s+kvstowd.log ends with:\s+broken",
        ),
    ):
        checkout.type([Block("page", 1, "sh", "echo first"), silent])


@pytest.mark.usefixtures("root")
def test_commands_that_do_not_end_are_told_with_what_they_showed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(subprocess.Popen[str]):
        """Whose time is over once the commands have begun to ask."""

        def communicate(self, *sent: Any, timeout: float | None = None) -> tuple[str, str]:
            if timeout is None:
                return super().communicate(*sent)
            wait_for((directory / "asked").exists, "the endless command")
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess, "Popen", Impatient)
    endless = Block("page", 7, "sh", "echo asking; until false; do : > asked; sleep 0.1; done")
    with (
        Checkout(directory) as checkout,
        pytest.raises(AssertionError, match=r"page:7 did not end in \d+ s:\s+asking"),
    ):
        checkout.type([Block("page", 1, "sh", "echo first"), endless])
