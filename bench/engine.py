"""An engine that only calls the daemon: its blocks hold nothing of worth."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from kvstow.client import (
    Budgets,
    Client,
    EngineMemory,
    Group,
    GroupMemory,
    Identity,
    KeyScheme,
    Layout,
    Segment,
    Session,
    Transfer,
    TransferState,
)

from .keys import KEY_BYTES

PATIENCE_S = 60.0
PATIENT = Budgets(lookup_s=PATIENCE_S, transfer_s=PATIENCE_S, control_s=PATIENCE_S)
"""A call that takes long is a figure, not a miss."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What a benchmark calls: a connection, and its only session."""

    client: Client
    session: Session

    def begin_store(self, keys: Sequence[bytes], blocks: Sequence[int]) -> Transfer:
        """Offer blocks."""
        return self.session.store(keys, blocks, self.session.generation)

    def begin_load(self, keys: Sequence[bytes], blocks: Sequence[int]) -> Transfer:
        """Ask for blocks that are stored."""
        hits = self.session.lookup("load", keys)
        return self.session.load(keys, blocks, hits)

    def store(self, keys: Sequence[bytes], blocks: Sequence[int]) -> None:
        """Store blocks, and wait for the report."""
        await_done(self.begin_store(keys, blocks))


def await_done(transfer: Transfer) -> None:
    """Wait until a transfer is DONE."""
    if not transfer.wait(PATIENCE_S) or transfer.state is not TransferState.DONE:
        raise RuntimeError(f"a transfer did not end well: {transfer}")


@contextmanager
def open_engine(target: str, block_bytes: int, block_count: int) -> Iterator[Engine]:
    """Open a session with memory for so many blocks of one segment; equal block sizes share a space."""
    layout = Layout(
        dtype="float16",
        block_tokens=16,
        world_size=1,
        groups=[Group(segment_bytes=[block_bytes])],
    )
    scheme = KeyScheme(hash_name="random", key_bytes=KEY_BYTES)
    identity = Identity(model=f"bench {block_bytes}", layout=layout, key_scheme=scheme)
    group = GroupMemory(block_count=block_count, segments=[Segment(stride_bytes=block_bytes)])
    with (
        Client(target, PATIENT) as client,
        EngineMemory(block_bytes * block_count) as memory,
        client.open(identity, "bench") as session,
    ):
        np.frombuffer(memory.buffer, np.uint8)[:] = (
            1  # all pages are there before anything is timed
        )
        session.attach(0, [memory.region()], [group])
        yield Engine(client, session)
