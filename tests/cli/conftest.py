"""A daemon, and an engine that uses it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import emptied
from support.client_engine import ClientEngine, connected_engine
from support.kvstowd import Kvstowd, placed_kvstowd


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        yield Path(name)


@pytest.fixture
def own() -> Iterator[Kvstowd]:
    """A daemon that the test may break."""
    with placed_kvstowd() as running:
        yield running


@pytest.fixture(scope="module")
def shared() -> Iterator[Kvstowd]:
    """A daemon whose copies can be held, for all tests of a module."""
    with placed_kvstowd(debug_service=True) as running:
        yield running


@pytest.fixture
def daemon(shared: Kvstowd) -> Iterator[Kvstowd]:
    """The shared daemon, without spaces."""
    with emptied(shared):
        yield shared


@pytest.fixture
def engine(daemon: Kvstowd) -> Iterator[ClientEngine]:
    """An engine that stored three blocks and looked four up."""
    with connected_engine(daemon.target) as connected:
        connected.store([1, 2, 3], [0, 1, 2])
        connected.lookup([1, 2, 3, 4])
        yield connected
