"""What is installed without its extra says so in one line."""

import subprocess
import sys

import pytest

WITHOUT = "import runpy, sys; sys.modules[sys.argv.pop(1)] = None; runpy.run_module(sys.argv.pop(1), run_name='__main__')"
"""Runs a module where another cannot be imported."""


@pytest.mark.parametrize(
    ("module", "lacking", "extra"),
    [
        ("kvstow.server", "structlog", "server"),
        ("kvstow.server", "numpy", "server"),
        ("kvstow.server", "grpc_health", "server"),
        ("kvstow.cli", "typer", "cli"),
        ("kvstow.cli", "rich", "cli"),
    ],
)
def test_a_missing_extra_is_named(module: str, lacking: str, extra: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT, lacking, module, "--help"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert f"{lacking} is not installed" in line
    assert f"pip install 'kvstow[{extra}]'" in line


@pytest.mark.parametrize("module", ["kvstow.server", "kvstow.cli"])
def test_a_module_of_its_own_that_is_missing_is_no_extra(module: str) -> None:
    broken = subprocess.run(
        [sys.executable, "-c", WITHOUT, "kvstow.v1.cache_pb2", module, "--help"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert broken.returncode == 1
    assert "ModuleNotFoundError" in broken.stderr
