"""A daemon as a process, and a directory on disk for its socket."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kvstowd import Kvstowd, running_kvstowd


@pytest.fixture
def daemon() -> Iterator[Kvstowd]:
    """A daemon that is ready."""
    with (
        tempfile.TemporaryDirectory(prefix="kvstow-") as name,
        running_kvstowd(Path(name), debug_service=True) as running,
    ):
        yield running
