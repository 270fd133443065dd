"""The daemon of most tests here: one rank, one group, a pool of eight blocks; without GPUs, and with one."""

from collections.abc import Iterator

import pytest

from support.daemons import Rig, running_daemon
from support.machines import MACHINES, Machine


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Machine:
    """What a daemon runs on: engines have their memory in files, or on GPUs of the driver model."""
    return MACHINES[request.param]()


@pytest.fixture
def rig(machine: Machine) -> Iterator[Rig]:
    """A running daemon."""
    with running_daemon(machine=machine) as running:
        yield running
