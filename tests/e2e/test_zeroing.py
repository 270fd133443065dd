"""What the memory of a real daemon holds of blocks whose slots were freed; read as the kernel lets its parent read it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvstow.client import (
    Client,
    EngineMemory,
    GroupMemory,
    Identity,
    Segment,
    SessionState,
    TransferState,
)
from support.client_engine import BLOCK_BYTES, IDENTITY, PATIENT, ClientEngine, connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.memory import content, key
from support.waiting import wait_for

NUMBERS = list(range(1, 17))
FULL = {"pool_size": 16 * BLOCK_BYTES, "extent_size": 4 * BLOCK_BYTES}
"""Of exactly these blocks."""


def larger(block_bytes: int) -> Identity:
    """A model with larger blocks than that of other tests."""
    found = Identity()
    found.CopyFrom(IDENTITY)
    found.model = "larger"
    found.layout.groups[0].segment_bytes[0] = block_bytes
    return found


def pool(daemon: Kvstowd) -> bytes:
    """The bytes of the host pool."""
    maps = Path(f"/proc/{daemon.process.pid}/maps").read_text(encoding="utf-8").splitlines()
    (where,) = (line.split()[0] for line in maps if "memfd:kvstow-pool" in line)
    start, end = (int(address, 16) for address in where.split("-"))
    with open(f"/proc/{daemon.process.pid}/mem", "rb") as memory:
        memory.seek(start)
        return memory.read(end - start)


def traces(daemon: Kvstowd) -> list[int]:
    """The blocks of which something is there."""
    found = pool(daemon)
    wholes = {number: content(key(number), 0, 0, BLOCK_BYTES) for number in NUMBERS}
    return [n for n, whole in wholes.items() if whole[:32] in found or whole[-32:] in found]


def reset(client: Client, engine: ClientEngine) -> None:
    engine.session.reset()


def drop(client: Client, engine: ClientEngine) -> None:
    engine.session.close()
    (space,) = client.administration.spaces()
    client.administration.drop_space(space.space_id)


def evict(client: Client, engine: ClientEngine) -> None:
    """A model with larger blocks needs the extents of the first one, and leaves a part of each as it is."""
    size_bytes = 3 * BLOCK_BYTES
    other = larger(size_bytes)
    with EngineMemory(4 * size_bytes) as memory, client.open(other, "larger") as session:
        segments = [Segment(offset_bytes=0, stride_bytes=size_bytes)]
        session.attach(0, [memory.region()], [GroupMemory(block_count=4, segments=segments)])
        wait_for(lambda: session.state is SessionState.OPEN, "an open session")
        # One after the other: while the end of an extent is being zeroed it cannot be had.
        for number in range(4):
            stored = session.store([key(100 + number)], [number], session.generation)
            assert stored.wait(60)
            assert (stored.state, stored.accepted_count) == (TransferState.DONE, 1)


Way = Callable[[Client, ClientEngine], None]
WAYS: list[Way] = [reset, drop, evict]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("zeroed", ["", "*"])
def test_nothing_is_left_where_freed_slots_are_zeroed(
    directory: Path, way: Way, zeroed: str
) -> None:
    settings = {**FULL, "zero_freed": zeroed}
    with (
        running_kvstowd(directory, **settings) as daemon,
        Client(daemon.target, PATIENT) as client,
    ):
        with connected_engine(daemon.target) as engine:
            engine.store(NUMBERS, list(range(16)))
            assert traces(daemon) == NUMBERS
            way(client, engine)
        if zeroed:
            wait_for(lambda: not traces(daemon), "zeroing")
            wait_for(lambda: not daemon.metrics()["kvstow_pool_bytes zeroing"], "its end")
        else:
            assert traces(daemon)
        client.administration.check_ledger()
        assert daemon.metrics()["kvstow_internal_errors_total"] == 0


def test_a_daemon_that_is_told_to_end_while_it_zeroes_ends(directory: Path) -> None:
    """What is not zeroed yet the kernel clears before it gives the memory to anybody."""
    with running_kvstowd(directory, pool_size="256MiB", zero_freed="*") as daemon:
        with (
            Client(daemon.target, PATIENT) as client,
            EngineMemory(64 << 20) as memory,
            client.open(larger(1 << 20), "larger") as session,
        ):
            segments = [Segment(offset_bytes=0, stride_bytes=1 << 20)]
            counts = [GroupMemory(block_count=64, segments=segments)]
            session.attach(0, [memory.region()], counts)
            wait_for(lambda: session.state is SessionState.OPEN, "an open session")
            for start in range(0, 256, 64):
                keys = [key(number) for number in range(start, start + 64)]
                assert session.store(keys, list(range(64)), session.generation).wait(60)
            session.reset()
            daemon.terminate()
        assert daemon.wait_exit() == 0
        assert "Traceback" not in "".join(daemon.output)
