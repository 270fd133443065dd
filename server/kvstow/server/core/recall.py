"""What the books know of keys, without an effect on anything."""

from collections.abc import Sequence
from itertools import chain

from .books import Books
from .history import Batch, Recollection
from .transfers import StorePart
from .types import Fate, GroupKeys, KeyState, SpaceId
from .validation import check_groups

_THERE = {KeyState.READY: Fate.READY, KeyState.WRITING: Fate.WRITING}


def recall(
    books: Books, space_id: SpaceId, group: int, keys: Sequence[bytes], *, now: float
) -> Recollection:
    """See `Ledger.recall`."""
    space = books.space(space_id)
    check_groups(space, [GroupKeys(group, keys)], books.limits.max_keys)
    index = space.indexes[group]
    states = zip(keys, map(index.state, keys), strict=True)
    history = books.pool.history
    parts = (history.moves, history.refusals)
    forgotten = [each.forgotten_at for each in parts if each.forgotten_at is not None]
    return Recollection(
        keys=keys,
        fates={key: _THERE[state] for key, state in states if state in _THERE},
        generation=space.generation,
        index=index.serial,
        ended={ended.indexes[group]: ended for ended in space.ended},
        histories=[part.all() for part in parts],
        voided=_voided(books),
        forgotten_at=max(forgotten, default=None),
        now=now,
    )


def _voided(books: Books) -> list[Batch]:
    """What the history is to be told of abandoned stores when their keys are taken out."""
    abandoned = (found for found in books.transfers.values() if found.abandoned)
    parts = chain.from_iterable(found.parts for found in abandoned)
    writings = [part.writing for part in parts if isinstance(part, StorePart)]
    for table in books.pool.tables.values():
        loose = chain.from_iterable(table.backlog.values())
        writings += [each.writing for each in loose if each.writing is not None]
    voided = [each.voided for each in writings if each.voided is not None]
    return [batch for batch in voided if batch.number > books.pool.history.moves.forgotten]
