"""Real processes: a directory on disk for sockets, short enough for a socket's path."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kvstowd import Kvstowd, running_kvstowd


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where a daemon has its socket."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        yield Path(name)


@pytest.fixture
def daemon(directory: Path) -> Iterator[Kvstowd]:
    """A daemon whose copies can be held."""
    patient = {"session_grace_s": 600, "drain_grace_s": 600}
    with running_kvstowd(directory, debug_service=True, **patient) as running:
        yield running
