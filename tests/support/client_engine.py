"""An engine that speaks to a daemon through the client, in this process or, run as a program, in one of its own."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvstow.client import (
    Budgets,
    Client,
    Credentials,
    EngineMemory,
    Group,
    GroupMemory,
    Hits,
    Identity,
    KeyScheme,
    Layout,
    Segment,
    SessionState,
    Transfer,
    TransferState,
)
from kvstow.client.memory import DIRECTORY

from .memory import KEY_BYTES, content, key
from .waiting import DEADLINE_S, wait_for

PATIENT = Budgets(lookup_s=DEADLINE_S, transfer_s=DEADLINE_S, control_s=DEADLINE_S)
"""Never used up, unless something is broken."""

BLOCK_BYTES = 1024
BLOCK_COUNT = 16
IDENTITY = Identity(
    model="model",
    layout=Layout(
        dtype="float32",
        block_tokens=16,
        world_size=1,
        groups=[Group(segment_bytes=[BLOCK_BYTES])],
    ),
    key_scheme=KeyScheme(hash_name="sha256", key_bytes=KEY_BYTES),
)


class ClientEngine:
    """One rank, one group.

    Args:
        client: the connection.
        memory: of at least BLOCK_COUNT blocks.
    """

    def __init__(self, client: Client, memory: EngineMemory) -> None:
        self.memory = memory
        self.session = client.open(IDENTITY, "engine")
        segments = [Segment(offset_bytes=0, stride_bytes=BLOCK_BYTES)]
        self.session.attach(
            0, [memory.region()], [GroupMemory(block_count=BLOCK_COUNT, segments=segments)]
        )

    def begin_store(self, numbers: Sequence[int], blocks: Sequence[int]) -> Transfer:
        """Compute blocks and offer them."""
        for number, block in zip(numbers, blocks, strict=True):
            self._view(block)[:] = content(key(number), 0, 0, BLOCK_BYTES)
        return self.session.store(keys(numbers), blocks, self.session.generation)

    def store(self, numbers: Sequence[int], blocks: Sequence[int]) -> None:
        """Compute blocks and store them."""
        transfer = self.begin_store(numbers, blocks)
        assert transfer.wait(60), transfer
        assert transfer.state is TransferState.DONE, transfer

    def lookup(self, numbers: Sequence[int]) -> Hits:
        """Ask for a prefix, and hold what is found."""
        return self.session.lookup("request", keys(numbers), budget_s=60)

    def load(self, numbers: Sequence[int], blocks: Sequence[int]) -> None:
        """Load blocks and find their content."""
        for block in blocks:
            self._view(block)[:] = bytes(BLOCK_BYTES)
        hits = self.lookup(numbers)
        assert hits.groups[0].hit_count == len(numbers)
        transfer = self.session.load(keys(numbers), blocks, hits)
        assert transfer.wait(60), transfer
        assert transfer.state is TransferState.DONE, transfer
        for number, block in zip(numbers, blocks, strict=True):
            assert self._view(block) == content(key(number), 0, 0, BLOCK_BYTES)

    def wait_open(self) -> None:
        """Wait until the session is open."""
        wait_for(lambda: self.session.state is SessionState.OPEN, "an open session")

    def _view(self, block: int) -> memoryview:
        return self.memory.buffer[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]


def keys(numbers: Sequence[int]) -> list[bytes]:
    """Block keys."""
    return [key(number) for number in numbers]


@contextmanager
def connected_engine(
    target: str, credentials: Credentials | None = None, directory: Path = DIRECTORY
) -> Iterator[ClientEngine]:
    """An engine that leaves afterwards; `directory` is where its memory lies."""
    with (
        Client(target, PATIENT, credentials) as client,
        EngineMemory(BLOCK_BYTES * BLOCK_COUNT, directory) as memory,
    ):
        engine = ClientEngine(client, memory)
        with engine.session:
            yield engine


def main() -> None:
    """Store two blocks, say how the transfer stands, and live until killed."""
    with connected_engine(sys.argv[1]) as engine:
        transfer = engine.begin_store([1, 2], [0, 1])
        sys.stdout.write(f"{transfer.statuses}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
