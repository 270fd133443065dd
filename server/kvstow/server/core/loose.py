"""What is left of ended leases, loads and stores: slots that are still to be given back."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .index import Writing


@dataclass(frozen=True, slots=True)
class Loose:
    """Slots that came loose together.

    Args:
        slots: each still has a hold that nobody has any more, or is still taken by a store that has ended.
        since: when they came loose.
        writing: of a store, what it had made WRITING; it is void.
        keys: of a store, that of each slot.
    """

    slots: Sequence[int]
    since: float
    writing: Writing | None = None
    keys: Sequence[bytes] = ()


def pop_loose(batches: list[Loose], limit: int) -> Loose:
    """Take out up to `limit` slots of the newest batch: its tail."""
    newest = batches.pop()
    at = max(0, len(newest.slots) - limit)
    if not at:
        return newest
    batches.append(replace(newest, slots=newest.slots[:at], keys=newest.keys[:at]))
    return replace(newest, slots=newest.slots[at:], keys=newest.keys[at:])
