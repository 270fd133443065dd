"""What the tests of the client share: doubles, sessions with them, and identities."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.double import Double
from client.spaces import identity
from kvstow.client import Client, EngineMemory, Session
from support.client_engine import BLOCK_BYTES, BLOCK_COUNT, PATIENT, ClientEngine
from support.kvstowd import Kvstowd, running_kvstowd


@pytest.fixture
def socket() -> Iterator[Path]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as directory:
        yield Path(directory, "s")


@pytest.fixture
def double(socket: Path) -> Iterator[Double]:
    """A daemon that does as it is told."""
    double = Double(socket)
    yield double
    double.stop()


@pytest.fixture
def open_session(double: Double, socket: Path) -> Iterator[Callable[..., Session]]:
    """Opens sessions with the double; they are closed at the end of the test."""
    with Client(f"unix:{socket}", PATIENT) as client:
        opened: list[Session] = []

        def open_session(**how: Any) -> Session:
            opened.append(client.open(identity(), "engine", **how))
            return opened[-1]

        yield open_session
        for session in opened:
            session.close(0)


@pytest.fixture
def session(open_session: Callable[..., Session]) -> Session:
    """A session with the double."""
    return open_session()


@pytest.fixture
def daemon(socket: Path) -> Iterator[Kvstowd]:
    """A real daemon whose copies can be held."""
    patient = {"session_grace_s": 600, "drain_grace_s": 600}
    with running_kvstowd(socket.parent, debug_service=True, **patient) as running:
        yield running


@pytest.fixture
def engine(daemon: Kvstowd) -> Iterator[ClientEngine]:
    """An engine of the real daemon."""
    with (
        Client(daemon.target, PATIENT) as client,
        EngineMemory(BLOCK_BYTES * BLOCK_COUNT) as memory,
    ):
        yield ClientEngine(client, memory)
