"""Every interleaving of a small world, each state of it visited once, with the invariants of the books and of the bytes as
the oracle.

Two states are the same when nothing that can follow tells them apart: ids do not matter, nor does which of the two slots
or of the two engines is which. When an oracle fails, the note at the error says what led there.
"""

import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import pytest

from core.engines import key
from core.small_world import KEYS, Flight, Owner, SmallWorld
from kvstow.server.core.books import Limits
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.slots import SlotTable
from kvstow.server.core.types import GroupKeys, KeyState, SessionId, TransferKind

PREFIXES = ((1,), (2,), (1, 2))
"""What engines ask for: both blocks, or one of them."""


class Action(NamedTuple):
    """Something that can happen: a method of the world, and its arguments."""

    verb: Callable[..., None]
    arguments: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.verb.__name__}{self.arguments}"


Path = tuple[Action, ...]


@dataclass(frozen=True)
class Bounds:
    """What keeps the number of states finite.

    Args:
        flights, draining: transfers and resets under way at once.
        backlog: batches of loose slots, and indexes that have something left to do; when there are more of either, the
            next thing that happens is a sweep.
    """

    flights: int
    draining: int
    backlog: int

    def actions(self, world: SmallWorld) -> Iterator[Action]:
        """Everything that can happen now."""
        backlog = world.table.backlog
        if max(len(backlog), sum(map(len, backlog.values()))) > self.backlog:
            yield Action(SmallWorld.sweep)
            return
        if len(world.draining) < self.draining:
            yield Action(SmallWorld.reset)
        if world.books.leases:
            yield Action(SmallWorld.expire)
        if world.table.backlog:
            yield Action(SmallWorld.sweep)
        for engine, session in enumerate(world.engines):
            if session is None:
                yield Action(SmallWorld.open, (engine,))
            else:
                yield from self._actions_of(world, engine, session)
        for owner, flight in world.flights.items():
            yield from _actions_on(owner, flight)

    def _actions_of(self, world: SmallWorld, engine: int, session: SessionId) -> Iterator[Action]:
        yield Action(SmallWorld.kill, (engine,))
        yield Action(SmallWorld.hold, (engine,))
        if world.books.sessions[session].leases:
            yield Action(SmallWorld.release, (engine,))
        if len(world.flights) < self.flights:
            for keys in PREFIXES:
                yield Action(SmallWorld.store, (engine, keys))
                yield Action(SmallWorld.load, (engine, keys))


def _actions_on(owner: Owner, flight: Flight) -> Iterator[Action]:
    if not flight.running:
        yield Action(SmallWorld.start, (owner,))
    else:
        yield Action(SmallWorld.finish, (owner, ()))
        yield Action(SmallWorld.finish, (owner, (0,)))
    if not flight.abandoned:
        yield Action(SmallWorld.cancel, (owner,))


def verify(world: SmallWorld) -> None:
    """What holds in every state."""
    world.ledger.check()
    assert world.books.transfers.keys() == world.flights.keys()
    index = world.space.indexes[0]
    generation = world.space.generation
    for ready_key, slot in index.ready_items():
        assert world.content[slot] == (generation, ready_key), "a lookup would show other bytes"
    writing = [
        block
        for flight in world.flights.values()
        if flight.kind is TransferKind.STORE and not flight.abandoned
        for block in flight.blocks
    ]
    assert sorted(index.writing.items()) == sorted(writing)
    for flight in world.flights.values():
        assert all(world.content[slot] == expected for slot, expected in flight.expected.items())
    if not any(world.engines) and not world.flights and not world.table.backlog:
        verify_empty(world)


def verify_empty(world: SmallWorld) -> None:
    """What holds when nobody is left."""
    books = world.books
    assert not any([books.sessions, books.transfers, books.leases])
    assert not any([world.space.running, world.space.draining, world.space.writing_count])
    assert not world.table.busy_count
    assert not any(world.table.holds)


def look(world: SmallWorld) -> None:
    """A lookup shows every engine what the books say."""
    index = world.space.indexes[0]
    keys = [key(number) for number in KEYS]
    ready, writing = dict(index.ready_items()), dict(index.writing.items())
    letters = {
        **dict.fromkeys(keys, KeyState.ABSENT),
        **dict.fromkeys(writing, KeyState.WRITING),
        **dict.fromkeys(ready, KeyState.READY),
    }
    for session in filter(None, world.engines):
        result = world.ledger.lookup(
            session,
            world.space.generation,
            [GroupKeys(0, keys)],
            LookupOptions(want_states=True),
            now=world.now,
        )
        assert result.groups[0].states == "".join(letters[asked].value for asked in keys)


def fingerprint(world: SmallWorld) -> tuple[object, ...]:
    """What tells this state from others."""
    return min(
        _describe(world, engines, slots)
        for engines in permutations(range(2))
        for slots in permutations(range(2))
    )


def _describe(
    world: SmallWorld, engines: Sequence[int], slots: Sequence[int]
) -> tuple[object, ...]:
    books, space, table = world.books, world.space, world.table
    index, generation = space.indexes[0], space.generation
    sessions = [world.engines[engine] for engine in engines]
    named = {session: at for at, session in enumerate(sessions) if session is not None}
    leases = sorted(books.leases.values(), key=lambda lease: lease.expires_at)
    flights = [
        (
            named.get(session, len(engines)),
            flight.kind.value,
            generation - flight.generation,
            flight.running,
            flight.abandoned,
            tuple((block_key, slots[slot]) for block_key, slot in flight.blocks),
        )
        for (session, _), flight in world.flights.items()
    ]
    return (
        table.slot_count,
        tuple(session is not None for session in sessions),
        tuple(
            (
                named[lease.session],
                tuple(slots[slot] for held in lease.held for slot in held.slots),
            )
            for lease in leases
        ),
        tuple(slots[slot] for slot in table.policy.order()),
        tuple(sorted((block_key, slots[slot]) for block_key, slot in index.ready_items())),
        _describe_backlog(table, slots),
        tuple(sorted(flights)),
        tuple(generation - due for due in world.draining),
    )


def _describe_backlog(table: SlotTable, slots: Sequence[int]) -> tuple[object, ...]:
    return tuple(
        (
            index.retired,
            tuple(sorted(slots[slot] for _, slot in index.ready_items() if index.retired)),
            tuple(
                (each.writing is None, tuple(slots[slot] for slot in each.slots))
                for each in batches
            ),
        )
        for index, batches in table.backlog.items()
    )


def step(path: Path, frozen: bytes) -> SmallWorld:
    """The world after the last action of the path."""
    world: SmallWorld = pickle.loads(frozen)
    try:
        world.run(path[-1].verb, *path[-1].arguments)
        verify(world)
    except AssertionError as error:
        error.add_note("after " + ", ".join(map(str, path)))
        raise
    return world


def explore(bounds: Bounds, limits: Limits) -> tuple[int, Counter[str]]:
    """Take every possible step from every state, nearest first.

    Args:
        bounds: of the states.
        limits: of the ledger.

    Returns:
        How many states there are, and how many steps of each kind were taken.
    """
    start = SmallWorld(limits)
    seen = {fingerprint(start)}
    steps: Counter[str] = Counter()
    queue: deque[tuple[Path, bytes]] = deque([((), pickle.dumps(start))])
    while queue:
        path, frozen = queue.popleft()
        for action in list(bounds.actions(pickle.loads(frozen))):
            further = (*path, action)
            world = step(further, frozen)
            steps[action.verb.__name__] += 1
            mark = fingerprint(world)
            if mark not in seen:
                look(world)
                seen.add(mark)
                queue.append((further, pickle.dumps(world)))
    return len(seen), steps


KINDS_OF_STEP = 12


@pytest.mark.timeout(3600)
def test_every_state_of_a_small_world() -> None:
    state_count, steps = explore(Bounds(flights=2, draining=2, backlog=2), Limits())
    assert state_count > 5000
    assert len(steps) == KINDS_OF_STEP
    assert min(steps.values()) > 100


@pytest.mark.timeout(3600)
def test_every_state_while_holds_are_loose() -> None:
    """Holds that are over are given back by sweeping alone: whatever can happen before that happens."""
    state_count, steps = explore(Bounds(flights=1, draining=1, backlog=1), Limits(max_tightened=0))
    assert state_count > 3000
    assert len(steps) == KINDS_OF_STEP
    assert min(steps.values()) > 100


@pytest.mark.exhaustive
@pytest.mark.timeout(7200)
def test_every_state_with_three_transfers_under_way() -> None:
    state_count, steps = explore(Bounds(flights=3, draining=2, backlog=2), Limits())
    assert state_count > 28_000
    assert len(steps) == KINDS_OF_STEP
