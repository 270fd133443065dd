"""What the log says about spaces: what a block costs, and why two engines of one model do not share."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice

import structlog

from kvstow.server.config import Config
from kvstow.server.core.types import Identity, Layout, SpaceId

_SHOWN_CHARACTERS = 60
_SHOWN_DIFFERENCES = 8
_log = structlog.get_logger("kvstow.daemon")


def log_space(
    space: SpaceId,
    identity: Identity,
    kin: Sequence[Identity],
    config: Config,
) -> None:
    """Say what a new space costs, and what separates it from others of the same model.

    Args:
        kin: identities of the other living spaces of the model.
        config: the settings.
    """
    layout = identity.layout
    _log.info(
        "space opened",
        space=space,
        model=identity.model,
        tenant=identity.tenant,
        block_bytes=slot_sizes(layout),
        blocks_if_alone=block_counts(layout, config.pool_size, config.extent_bytes),
        zero_freed=config.zero_freed.covers(identity.tenant),
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
    """The fields in which two identities differ, by their dotted names, with both values; of very many the first ones."""
    found = list(islice(_differing(asdict(one), asdict(other), ""), _SHOWN_DIFFERENCES + 1))
    return found if len(found) <= _SHOWN_DIFFERENCES else [*found[:-1], "and more"]


def _differing(one: object, other: object, path: str) -> Iterator[str]:
    """Walk two values side by side to the leaves that differ; None stands for what one of them lacks."""
    if one == other:
        return
    left, right = _parts(one, path), _parts(other, path)
    if not left and not right:
        yield f"{path}: {_shown(one)} and {_shown(other)}"
    for part in left | right:
        yield from _differing(left.get(part), right.get(part), part)


def _parts(value: object, path: str) -> dict[str, object]:
    """What a value consists of, by path; a leaf has no parts."""
    match value:
        case dict():
            return {f"{path}.{name}" if path else name: part for name, part in value.items()}
        case tuple() | list():
            return {f"{path}[{number}]": part for number, part in enumerate(value)}
    return {}


def _shown(leaf: object) -> str:
    match leaf:
        case None:
            return "none"
        case bytes():
            return leaf.hex()[:_SHOWN_CHARACTERS]
    return str(leaf)[:_SHOWN_CHARACTERS]
