"""Zeroes the freed slots of the tenants that `zero_freed` names, on a thread of its own: a reset may free very many.

Decided here: nothing; the ledger says which slots, and when they are free again. The lock is not held while bytes are
zeroed. What still waits when the daemon ends is left: the kernel clears memory before it gives it to anybody else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kvstow.server.core.types import Layout, TransferKind, TransferPlan

from .guard import NEVER, Guard

Zero = Callable[[Iterable[range]], None]
"""Zeroes pieces of the host pool, given by their bytes."""


def no_pool(_pieces: Iterable[range]) -> None:
    """For daemons that are given no pool, and must not be told to zero anything then."""
    raise NotImplementedError("this daemon was given nothing that zeroes the host pool")


@dataclass(slots=True)
class Zeroing:
    """The work of the zeroing thread.

    Args:
        guard: the lock and the books.
        zero: zeroes pieces of the host pool.
    """

    guard: Guard
    zero: Zero

    def work(self) -> float:
        """Zero what comes next; returns when to come again.

        Whatever goes wrong here ends the thread, which is reported as a bug. The slots that it was zeroing are then given to
        nobody any more, because what lies in them is not known.
        """
        with self.guard as ledger:
            pieces = ledger.begin_zeroing()
        if pieces is None:
            return NEVER
        self.zero(pieces)
        with self.guard as ledger:
            ledger.end_zeroing()
        return 0.0


def zero_padding(zero: Zero, extent_bytes: int, plan: TransferPlan, layout: Layout) -> None:
    """Zero what the blocks of a store will leave of their slots, where slots are larger than blocks.

    Slots are aligned, so a smaller block may follow a larger one in a slot that was not zeroed: the store overwrites it.
    """
    if plan.kind is not TransferKind.STORE:
        return
    for copies in plan.copies:
        group = layout.groups[copies.group]
        used = group.block_bytes * (1 if group.replicated else layout.world_size)
        per_extent = extent_bytes // copies.slot_bytes
        if used < copies.slot_bytes:
            starts = (
                slot // per_extent * extent_bytes + slot % per_extent * copies.slot_bytes
                for slot in copies.slots
            )
            zero(range(start + used, start + copies.slot_bytes) for start in starts)


def leave_padding(_plan: TransferPlan, _layout: Layout) -> None:
    """For daemons that zero nobody's freed slots."""
