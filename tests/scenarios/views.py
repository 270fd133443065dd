"""Commands that show what there is to see and change nothing."""

from core.engines import key
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.types import GroupKeys
from scenarios import wording
from scenarios.script import Command
from scenarios.world import World


def due(world: World, _command: Command) -> str:
    """due: when there will be something to do"""
    when = world.ledger.next_deadline()
    return "nothing" if when is None else f"in {when - world.now:g}s"


def keys(world: World, command: Command) -> str:
    """keys SESSION: the state of every key that the script has named so far"""
    session = world.session(command)
    group_count = len(world.layout(session).groups)
    groups = [sorted(numbers) for numbers in world.mentioned[:group_count]]
    result = world.ledger.lookup(
        session,
        world.generation(command),
        [GroupKeys(at, [key(number) for number in group]) for at, group in enumerate(groups)],
        LookupOptions(want_states=True),
        now=world.now,
    )
    return wording.keys([hits.states for hits in result.groups], groups)


def slots(world: World, _command: Command) -> str:
    """slots: how many of each size are in which state"""
    view = world.ledger.snapshot(now=world.now)
    lines = [wording.table(table) for table in view.tables]
    if view.extents > 1:
        lines.append(f"{wording.count(view.unused_extents, 'unused extent')} of {view.extents}")
    return "\n".join(lines) or "no slots"


def transfers(world: World, _command: Command) -> str:
    """transfers: all that have not ended"""
    views = world.ledger.snapshot(now=world.now).transfers
    lines = [wording.transfer(view, world.names.session(view.session)) for view in views]
    return "\n".join(lines) or "no transfers"


def leases(world: World, _command: Command) -> str:
    """leases: all of them"""
    views = world.ledger.snapshot(now=world.now).leases
    lines = [wording.lease(view, world.names.session(view.session)) for view in views]
    return "\n".join(lines) or "no leases"


def sessions(world: World, _command: Command) -> str:
    """sessions: all of them"""
    views = world.ledger.snapshot(now=world.now).sessions
    return "\n".join(wording.session(view, world.names.session(view.id)) for view in views) or (
        "no sessions"
    )


def spaces(world: World, _command: Command) -> str:
    """spaces: all of them"""
    views = world.ledger.snapshot(now=world.now).spaces
    assert tuple(view.id for view in views) == world.ledger.space_ids()
    return "\n".join(wording.space(view, world.names.space(view.id)) for view in views) or (
        "no spaces"
    )


def counters(world: World, command: Command) -> str:
    """counters SPACE: what happened in it so far"""
    views = world.ledger.snapshot(now=world.now).spaces
    return wording.counters(
        next(view.counters for view in views if view.id == world.space(command))
    )


def totals(world: World, _command: Command) -> str:
    """totals: what happened so far, apart from what spaces count"""
    return wording.totals(world.ledger.snapshot(now=world.now).counters)


def evictions(world: World, _command: Command) -> str:
    """evictions: how many blocks left by policy, why, and how long after their last use"""
    return wording.evictions(world.ledger.snapshot(now=world.now).evictions)


def why(world: World, command: Command) -> str:
    """why SPACE keys=... [group=0]: what became of these keys, and when"""
    numbers, group = command.numbers("keys"), command.number("group", 0)
    asked = [key(number) for number in numbers]
    recollection = world.ledger.recall(world.space(command), group, asked, now=world.now)
    lines = wording.fates(recollection.explain(), numbers)
    if recollection.forgotten_at is not None:
        lines.append(f"forgotten: what is {world.now - recollection.forgotten_at:g}s old")
    return "\n".join(lines)
