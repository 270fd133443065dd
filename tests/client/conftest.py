"""What the tests of the client share: doubles, sessions with them, and identities."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.double import Double
from kvstow.client import Budgets, Client, Group, Identity, KeyScheme, Layout, Session

KEY_BYTES = 4
IDENTITY = Identity(
    model="model",
    layout=Layout(
        dtype="float32", block_tokens=16, world_size=1, groups=[Group(segment_bytes=[64])]
    ),
    key_scheme=KeyScheme(hash_name="sha256", key_bytes=KEY_BYTES),
)
BUDGETS = Budgets(lookup_s=0.05, transfer_s=0.05, control_s=30.0)


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
    with Client(f"unix:{socket}", BUDGETS) as client:
        opened: list[Session] = []

        def open_session(**how: Any) -> Session:
            opened.append(client.open(IDENTITY, "engine", **how))
            return opened[-1]

        yield open_session
        for session in opened:
            session.close(0)


@pytest.fixture
def session(open_session: Callable[..., Session]) -> Session:
    """A session with the double."""
    return open_session()
