"""What a lookup at the simulated daemon finds and holds, and what a transfer names."""

from collections.abc import Collection, Mapping, Sequence

from engines.copies import Name
from kvstow.client import Hold
from kvstow.client.hits import Blocks, Keys, by_group

Groups = Mapping[int, Sequence[bytes]]


def states_of(stored: Collection[Name], groups: Groups) -> tuple[dict[int, str], dict[int, int]]:
    """For each group a letter for each key, and how many leading ones are there."""
    states = {
        group: "".join("R" if (group, key) in stored else "." for key in named)
        for group, named in groups.items()
    }
    return states, {group: len(s) - len(s.lstrip("R")) for group, s in states.items()}


def held_by(
    hold: Hold, groups: Groups, states: Mapping[int, str], counts: Mapping[int, int]
) -> set[Name]:
    """What is put under the lease."""
    return {
        (group, key)
        for group, named in groups.items()
        for position, key in enumerate(named)
        if (position < counts[group] if hold is Hold.PREFIX else states[group][position] == "R")
    }


def items_of(keys: Keys, blocks: Blocks) -> list[tuple[Name, int]]:
    """Keys and blocks of a transfer, in the order of positions; checked as the daemon does."""
    named, numbers = by_group(keys), by_group(blocks)
    items = [
        ((group, key), block)
        for group, some in named.items()
        for key, block in zip(some, numbers[group], strict=True)
    ]
    assert list(named) == list(numbers)
    assert len({name for name, _ in items}) == len(items), "a key twice"
    assert len({block for _, block in items}) == len(items), "a block twice"
    assert items, "an empty transfer"
    return items
