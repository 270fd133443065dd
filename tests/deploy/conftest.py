"""What a service manager or a container gives a daemon: a directory for its socket, short enough for a socket's path."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where a daemon has its socket."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        yield Path(name)
