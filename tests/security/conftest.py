"""Directories for sockets and engine memory of the daemons here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.memory import shared_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    """On tmpfs, gone afterwards."""
    with shared_directory() as path:
        yield path
