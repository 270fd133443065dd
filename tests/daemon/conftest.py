"""The daemon of most tests here: one rank, one group, a pool of eight blocks."""

from collections.abc import Iterator

import pytest

from support.daemons import Rig, running_daemon


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A running daemon."""
    with running_daemon() as running:
        yield running
