"""What is left of ended leases, loads and stores: slots that are still to be given back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .writing import Writing


@dataclass(frozen=True, slots=True)
class Loose:
    """Slots that came loose together.

    Args:
        slots: each still has a hold that nobody has any more, or is still taken by a store that has ended.
        since: when they came loose.
        writing: of a store, what it had made WRITING; it is void, and the slots are of its keys that are left.
    """

    slots: Sequence[int]
    since: float
    writing: Writing | None = None


def pop_loose(batches: list[Loose], limit: int) -> list[Loose]:
    """Take out up to `limit` slots: of the newest batches, and of each batch the tail."""
    popped: list[Loose] = []
    while batches and limit:
        newest = batches.pop()
        at = max(0, len(newest.slots) - limit)
        if at:
            batches.append(replace(newest, slots=newest.slots[:at]))
            newest = replace(newest, slots=newest.slots[at:])
        popped.append(newest)
        limit -= len(newest.slots)
    return popped
