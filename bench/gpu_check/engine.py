"""An engine of the check: one rank, blocks of one piece each, fences."""

import itertools
import random
import uuid
from collections.abc import Sequence

from kvstow.client import (
    Client,
    FenceSlots,
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
from kvstow.client.closing import Closing

from .gpu import Buffer, Gpu

KEY_BYTES = 16
RING = 64
WAIT_S = 60.0

_numbers = itertools.count(1)


class CheckError(Exception):
    """Something came out otherwise than promised."""


def identity(piece_bytes: int, name: str = "") -> Identity:
    """A space; of its own without a name."""
    group = Group(segment_bytes=[piece_bytes])
    return Identity(
        model=name or uuid.uuid4().hex,
        layout=Layout(dtype="int32", block_tokens=16, world_size=1, groups=[group]),
        key_scheme=KeyScheme(hash_name="number", key_bytes=KEY_BYTES),
    )


def new_keys(count: int) -> list[bytes]:
    """Keys that nobody has used."""
    return [next(_numbers).to_bytes(KEY_BYTES, "big") for _ in range(count)]


def scattered(count: int) -> list[int]:
    """Blocks as an engine has them after a while: those that lay next to each other would be copied as one large piece."""
    blocks = list(range(count))
    random.Random(count).shuffle(blocks)
    return blocks


class CheckEngine(Closing):
    """A session with its memory attached.

    Args:
        client: of the daemon.
        gpu: where the memory is.
        piece_bytes: of a block.
        block_count: how many.
        name: of the space; empty for one of its own.

    Attributes:
        buffer: the memory.
        session: the session.
    """

    def __init__(
        self, client: Client, gpu: Gpu, piece_bytes: int, block_count: int, name: str = ""
    ) -> None:
        self._piece_bytes = piece_bytes
        self._block_count = block_count
        self.buffer: Buffer = gpu.buffer(piece_bytes, block_count)
        self._ring = gpu.ring(RING)
        self._slots = FenceSlots(RING)
        gpu.synchronize()
        self.session: Session = client.open(identity(piece_bytes, name), "gpu check")
        self.attach()

    def attach(self) -> None:
        """Attach the memory that there is now."""
        blocks = GroupMemory(
            block_count=self._block_count, segments=[Segment(stride_bytes=self._piece_bytes)]
        )
        self.session.attach(0, [self.buffer.region()], [blocks], self._ring.fences)

    def store(
        self, keys: Sequence[bytes], blocks: Sequence[int], *, fenced: bool = True
    ) -> Transfer:
        """Offer blocks, behind everything that was queued until now."""
        slot = self._record(fenced)
        transfer = self.session.store(keys, blocks, self.session.generation, fence=slot)
        return self._kept(transfer, slot)

    def load(
        self, keys: Sequence[bytes], blocks: Sequence[int], *, fenced: bool = True
    ) -> Transfer:
        """Load blocks, behind everything that was queued until now."""
        hits = self.session.lookup("request", keys)
        if hits.count != len(keys):
            raise CheckError(f"{hits.count} of {len(keys)} keys were found")
        slot = self._record(fenced)
        return self._kept(self.session.load(keys, blocks, hits, fence=slot), slot)

    def close(self) -> None:
        """Leave, and give everything back."""
        if not self.session.close(WAIT_S):
            raise CheckError("a copy still touches the memory")
        self._ring.close()
        self.buffer.free()

    def _record(self, fenced: bool) -> int | None:
        if not fenced:
            return None
        slot = self._slots.take()
        if slot is None:
            raise CheckError("more transfers than fences")
        self._ring.record(slot)
        return slot

    def _kept(self, transfer: Transfer, slot: int | None) -> Transfer:
        if slot is not None:
            self._slots.free_after(slot, transfer)
        return transfer


def done(*transfers: Transfer) -> None:
    """Wait for transfers; all are done."""
    for transfer in transfers:
        if not transfer.wait(WAIT_S):
            raise CheckError(f"no end within {WAIT_S} s: {transfer}")
        if transfer.state is not TransferState.DONE or set(transfer.statuses) - {"A"}:
            raise CheckError(f"{transfer} {transfer.statuses[:8]}")
