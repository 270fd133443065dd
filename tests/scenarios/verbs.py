"""Every command of the scenario scripts by its verb, and how one is run.

The docstring of each command is its form; what stands in brackets may be left out, with the value that it then has.
"""

from collections.abc import Callable

from kvstow.server.core.errors import Refusal
from scenarios import lives, views, wording, work
from scenarios.script import Command
from scenarios.world import World

VERBS: dict[str, Callable[[World, Command], str]] = {
    "ack": lives.acknowledge,
    "advance": lives.advance,
    "attach": lives.attach,
    "cancel": work.cancel,
    "close": lives.close,
    "counters": views.counters,
    "detach": lives.detach,
    "drain": lives.drain,
    "drained": work.drained,
    "drop": work.drop,
    "due": views.due,
    "events": lives.events,
    "evictions": views.evictions,
    "finish": work.finish,
    "keys": views.keys,
    "kill": lives.kill,
    "leases": views.leases,
    "load": work.load,
    "lookup": work.lookup,
    "open": lives.open_session,
    "pool": lives.pool,
    "release": work.release,
    "reset": work.reset,
    "sessions": views.sessions,
    "slots": views.slots,
    "spaces": views.spaces,
    "start": work.start,
    "store": work.store,
    "sweep": work.sweep,
    "told": lives.told,
    "totals": views.totals,
    "transfers": views.transfers,
    "unwatch": lives.unwatch,
    "wanted": work.wanted,
    "watch": lives.watch,
    "why": views.why,
    "zero": work.zero,
    "zeroed": work.zeroed,
}


def run(world: World, command: Command) -> str:
    """Run one command; the books are checked after it, and if it was refused they are as they were.

    Returns:
        What came of it, in one line or more.
    """
    before = world.ledger.snapshot(now=world.now)
    try:
        outcome = VERBS[command.verb](world, command)
    except Refusal as error:
        outcome = wording.refusal(error, world.names.facts())
        assert world.ledger.snapshot(now=world.now) == before, f"{outcome}, but the books changed"
    world.ledger.check()
    unknown = command.options.keys() - command.asked
    assert not unknown, f"{command.verb} has no option {unknown}"
    return outcome
