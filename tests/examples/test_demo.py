"""The demo, run as a person runs it, on the tiny model."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.demo import __main__ as demo
from examples.engine.package import WeightsMissing

ROOT = Path(__file__).parents[2]
SHARED_MEMORY = Path("/dev/shm")


def test_every_claim_of_the_demo_holds(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "examples.demo",
            "--tiny",
            "--json",
            str(tmp_path / "figures.json"),
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures: dict[str, Any] = json.loads((tmp_path / "figures.json").read_text())
    assert figures["broken"] == ""
    assert [claim["claim"] for claim in figures["claims"] if not claim["holds"]] == []
    assert figures["first_token"]["tokens_identical"]
    assert figures["first_token"]["loaded_tokens"] > 0.9 * figures["first_token"]["prompt_tokens"]
    assert figures["sharing"]["tokens_identical"]
    assert figures["reset"]["loaded_tokens_after"] == 0
    assert figures["reset"]["abandoned_reports"] == figures["reset"]["abandoned_stores"] > 0
    assert figures["metrics"]["kvstow_resets_total"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def test_missing_weights_are_said_and_the_tiny_model_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> Path:
        raise WeightsMissing("SmolLM2's weights are not installed")

    monkeypatch.setattr(demo, "packaged_gguf", missing)
    monkeypatch.setattr(sys, "argv", ["demo"])
    assert demo.main() == 2
    said = capsys.readouterr().out
    assert "SmolLM2's weights are not installed" in said
    assert f"{sys.executable} -m examples.demo --tiny\n" in said


class Person(io.StringIO):
    """Someone who types at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code", "models"), [("y\n", 0, ["tiny"]), ("n\n", 2, [])])
def test_whoever_sits_there_is_asked_for_the_tiny_model(
    monkeypatch: pytest.MonkeyPatch, answer: str, code: int, models: list[str]
) -> None:
    ran: list[str] = []

    def missing() -> Path:
        raise WeightsMissing("SmolLM2's weights are not installed")

    monkeypatch.setattr(demo, "packaged_gguf", missing)
    monkeypatch.setattr(demo, "_run", lambda model, _report: ran.append(model))
    monkeypatch.setattr(sys, "argv", ["demo"])
    monkeypatch.setattr(sys, "stdin", Person(answer))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert demo.main() == code
    assert ran == models
