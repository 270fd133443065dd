"""One distribution, one namespace, three roots: what would break it without a word."""

import json
import os
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
for name in ("kvstow.client", "kvstow.client.engines.offload"):
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__, f"{name}."):
        if module.name != "kvstow.client.ipc":
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
    """What needs an engine's own libraries (`ipc`, the adapters for one engine) is left out."""
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


def hatchling(target: str, source: Path, out: Path, compiler: str = "cc") -> tuple[Path, str]:
    """Build `source` as "sdist" or "wheel" into `out`; return the file and what was said."""
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
        cwd=source,
        env={**os.environ, "CC": compiler},
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    (artifact,) = out.iterdir()
    return artifact, built.stdout


@pytest.fixture
def source_tree(tmp_path: Path) -> Path:
    """The unpacked source distribution: no build here touches the working tree."""
    sdist, _ = hatchling("sdist", ROOT, tmp_path / "sdist")
    unpacked = tmp_path / "source"
    unpacked.mkdir()
    subprocess.run(["tar", "-xzf", sdist, "-C", unpacked], check=True)
    (tree,) = unpacked.iterdir()
    return tree


def test_a_wheel_carries_the_three_parts_and_the_kernels(
    source_tree: Path, tmp_path: Path
) -> None:
    wheel, _ = hatchling("wheel", source_tree, tmp_path / "wheel")
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
        f"{DEVICE}/cuda/gpu_kernel.ptx",
    }
    assert any(name.startswith("kvstow/v1/") and name.endswith("_pb2.py") for name in names)
    assert "kvstow/__init__.py" not in names


def test_a_build_without_a_compiler_warns_and_goes_on(source_tree: Path, tmp_path: Path) -> None:
    stale = source_tree / "server" / DEVICE / "_copy_spans.so"
    stale.write_bytes(b"of an older source")
    wheel, said = hatchling("wheel", source_tree, tmp_path / "wheel", "no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "built without the copy kernel" in said
    assert "no-such-compiler" in said
    assert f"{DEVICE}/_copy_spans.so" not in zipfile.ZipFile(wheel).namelist()
