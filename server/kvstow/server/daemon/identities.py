"""What the log says about spaces: what a block costs, and why two engines of one model do not share."""

from collections.abc import Sequence
from dataclasses import asdict

import structlog

from kvstow.server.core.types import Identity, Layout, SpaceId

_SHOWN_CHARACTERS = 60
_log = structlog.get_logger("kvstow.daemon")


def log_space(
    space: SpaceId,
    identity: Identity,
    kin: Sequence[Identity],
    pool_bytes: int,
    extent_bytes: int,
) -> None:
    """Say what a new space costs, and what separates it from others of the same model.

    Args:
        kin: identities of the other living spaces of the model.
        pool_bytes, extent_bytes: sizes of the host pool and of its extents.
    """
    layout = identity.layout
    _log.info(
        "space opened",
        space=space,
        model=identity.model,
        tenant=identity.tenant,
        block_bytes=slot_sizes(layout),
        blocks_if_alone=block_counts(layout, pool_bytes, extent_bytes),
    )
    for other in kin:
        _log.warning(
            "this space does not share with another of the same model",
            space=space,
            model=identity.model,
            differs_in=differences(identity, other),
        )


def slot_sizes(layout: Layout) -> tuple[int, ...]:
    """Bytes of host pool that one block takes, per group."""
    return tuple(group.slot_bytes(layout.world_size) for group in layout.groups)


def block_counts(layout: Layout, pool_bytes: int, extent_bytes: int) -> tuple[int, ...]:
    """How many blocks of each group the pool would hold if it held nothing else."""
    extents = pool_bytes // extent_bytes
    return tuple(extents * (extent_bytes // size) for size in slot_sizes(layout))


def differences(one: Identity, other: Identity) -> list[str]:
    """The fields in which two identities differ, by their dotted names, with both values."""
    left, right = _fields(asdict(one)), _fields(asdict(other))
    return [
        f"{name}: {left.get(name, 'none')} and {right.get(name, 'none')}"
        for name in left | right
        if left.get(name) != right.get(name)
    ]


def _fields(value: object, path: str = "") -> dict[str, str]:
    """Every leaf by its path."""
    match value:
        case dict():
            steps = [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
        case tuple() | list():
            steps = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
        case bytes():
            return {path: value.hex()[:_SHOWN_CHARACTERS]}
        case _:
            return {path: str(value)[:_SHOWN_CHARACTERS]}
    return {name: leaf for step, item in steps for name, leaf in _fields(item, step).items()}
