"""One distribution, one namespace, three roots: what would break it without a word."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NAMESPACE_ROOTS = ("proto", "server", "client")
DEVICE = "kvstow/server/device"

IMPORT_ALL_OF_THE_CLIENT = """
import importlib, json, pkgutil, sys
import kvstow.client
for module in pkgutil.walk_packages(kvstow.client.__path__, "kvstow.client."):
    if module.name != "kvstow.client.ipc" and ".engines" not in module.name:
        importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("root", NAMESPACE_ROOTS)
def test_no_root_claims_the_namespace(root: str) -> None:
    """An `__init__.py` here would hide the other two roots."""
    assert not (ROOT / root / "kvstow" / "__init__.py").exists()


def test_the_installed_namespace_spans_the_three_roots() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import kvstow; print(*kvstow.__path__, sep='\\n')"],
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert sorted(found) == sorted(str(ROOT / root / "kvstow") for root in NAMESPACE_ROOTS)


def test_the_client_brings_only_grpc_and_protobuf_into_an_engine() -> None:
    """The modules that need an engine's own libraries (`ipc`, `engines`) are left out."""
    loaded = json.loads(
        subprocess.run(
            [sys.executable, "-c", IMPORT_ALL_OF_THE_CLIENT],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    assert "kvstow.client" in loaded
    assert not [name for name in loaded if name.startswith(("kvstow.server", "kvstow.cli."))]
    heavy = {"numpy", "prometheus_client", "pydantic", "rich", "structlog", "torch", "typer"}
    assert not heavy.intersection(loaded)


@pytest.fixture
def source_tree(tmp_path: Path) -> Path:
    """What a build needs, copied, so that no build touches the working tree."""
    tree = tmp_path / "source"
    skip = shutil.ignore_patterns("__pycache__", "*.so")
    for root in NAMESPACE_ROOTS:
        shutil.copytree(ROOT / root, tree / root, ignore=skip)
    for name in ("pyproject.toml", "hatch_build.py", "LICENSE", "README.md", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    return tree


def build_wheel(tree: Path, compiler: str) -> tuple[Path, str]:
    """Build a wheel of `tree` with `compiler`; return it and all the build said."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree / "dist")],
        cwd=tree,
        env={**os.environ, "CC": compiler},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (wheel,) = (tree / "dist").glob("*.whl")
    return wheel, built.stdout


def test_a_wheel_carries_the_three_parts_and_the_kernel(source_tree: Path) -> None:
    wheel, _ = build_wheel(source_tree, "cc")
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= {
        "kvstow/client/__init__.py",
        "kvstow/client/py.typed",
        "kvstow/cli/__init__.py",
        "kvstow/server/__init__.py",
        "kvstow/server/core/__init__.py",
        f"{DEVICE}/_copy_spans.so",
    }
    assert any(name.startswith("kvstow/v1/") and name.endswith("_pb2.py") for name in names)
    assert "kvstow/__init__.py" not in names


def test_a_build_without_a_compiler_warns_and_goes_on(source_tree: Path) -> None:
    stale = source_tree / "server" / DEVICE / "_copy_spans.so"
    stale.write_bytes(b"of an older source")
    wheel, said = build_wheel(source_tree, "no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "built without the copy kernel" in said
    assert "no-such-compiler" in said
    assert f"{DEVICE}/_copy_spans.so" not in zipfile.ZipFile(wheel).namelist()
