"""The checks of this repository can fail: a check that cannot is worth nothing."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvstow.server.command_line import CLIENT_VARIABLES
from kvstow.server.config import PREFIX, Config

ROOT = Path(__file__).resolve().parent.parent
CHECK_SIZES = ROOT / "scripts" / "check_sizes.py"
LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `cwd`; return its exit code and what it printed."""
    return subprocess.run(
        command, cwd=cwd, env=environment or None, check=False, capture_output=True, text=True
    )


def a_function(lines: int) -> str:
    """A function of so many lines of code, with a docstring and comments that do not count."""
    body = ["    step()", "    # why", ""] * (lines - 1)
    return "\n".join(["def long():", '    """Do it.', "", "    All of it.", '    """', *body, ""])


def a_class(attributes: int) -> str:
    """A class with so many attributes, half declared and half assigned."""
    declared = [f"    a{i}: int" for i in range(attributes // 2)]
    assigned = [f"        self.b{i} = 0" for i in range(attributes - len(declared))]
    return "\n".join(["class Large:", *declared, "    def __init__(self):", *assigned, ""])


@pytest.mark.parametrize(
    ("inside", "beyond", "complaint"),
    [
        ("#\n" * 300, "#\n" * 301, "module has 301 lines, at most 300"),
        (a_function(40), a_function(41), "long has 41 lines, at most 40"),
        (a_class(12), a_class(13), "Large has 13 attributes, at most 12"),
    ],
)
def test_check_sizes_holds_each_bound(
    tmp_path: Path, inside: str, beyond: str, complaint: str
) -> None:
    module = tmp_path / "server" / "module.py"
    module.parent.mkdir()
    module.write_text(inside)
    assert run(sys.executable, CHECK_SIZES, cwd=tmp_path).returncode == 0
    module.write_text(beyond)
    complained = run(sys.executable, CHECK_SIZES, cwd=tmp_path)
    assert complained.returncode == 1
    assert complaint in complained.stdout


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("server/kvstow/server/core/types.py", "import time", "the core does no I/O"),
        ("server/kvstow/server/core/index.py", "import numpy", "the core does no I/O"),
        ("server/kvstow/server/core/unplaced.py", "", "core layers"),
        ("server/kvstow/server/unplaced.py", "", "server layers"),
        ("server/kvstow/server/core/types.py", "import kvstow.server.rpc", "server layers"),
        (
            "server/kvstow/server/device/host.py",
            "import torch",
            "the daemon needs no package for CUDA",
        ),
        ("server/kvstow/server/config.py", "import grpc", "protobuf stops at the rpc layer"),
        ("client/kvstow/client/stray.py", "import numpy", "an engine imports gRPC"),
        ("client/kvstow/client/stray.py", "import kvstow.server", "meet only on the wire"),
        ("client/kvstow/cli/rows.py", "import kvstow.server.replay", "speaks to a daemon"),
        ("server/kvstow/server/replay/sizes.py", "import kvstow.server.device", "server layers"),
    ],
)
def test_a_broken_import_contract_is_reported(
    tmp_path: Path, module: str, statement: str, contract: str
) -> None:
    sources_alone = shutil.ignore_patterns("__pycache__")  # there files come and go
    for root in ("proto", "server", "client"):
        shutil.copytree(ROOT / root, tmp_path / root, ignore=sources_alone)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / module).open("a") as source:
        source.write(f"\n{statement}\n")
    path = ":".join(str(tmp_path / root) for root in ("proto", "server", "client"))
    linted = run(LINT_IMPORTS, "--no-cache", cwd=tmp_path, PYTHONPATH=path)
    assert linted.returncode == 1
    assert re.search(rf"{re.escape(contract)}.* BROKEN", linted.stdout)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_make_target_that_is_named_exists(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(
        re.findall(r"(?:^|`)make (?:--\S+ )*([a-z-]+)", (ROOT / name).read_text(), re.MULTILINE)
    )
    assert named
    assert named <= targets


def test_every_setting_that_the_packaging_names_exists() -> None:
    packaging = [ROOT / "Dockerfile", *(ROOT / "deploy").rglob("*.service")]
    text = "".join(path.read_text() for path in packaging)
    named = set(re.findall(rf"\b{PREFIX}\w+", text)) - CLIENT_VARIABLES
    assert named
    assert {name.removeprefix(PREFIX).lower() for name in named} <= set(Config.model_fields)
