"""Commands that store, load, look up, hold and reset."""

from core.engines import key
from kvstow.server.core.lookups import LookupOptions
from kvstow.server.core.types import (
    BlockFailure,
    GroupKeys,
    Hold,
    LeaseId,
    TransferId,
    TransferPlan,
)
from scenarios import wording
from scenarios.script import Command
from scenarios.world import NOWHERE, World


def store(world: World, command: Command) -> str:
    """store SESSION TRANSFER keys=... [blocks=...] [gen=] [deadline=60s] [groups=0..] [copy=done]"""
    plan = world.ledger.begin_store(
        world.session(command),
        TransferId(int(command.word(1))),
        world.generation(command),
        world.blocks(command),
        deadline_s=command.seconds("deadline", 60),
        now=world.now,
    )
    return wording.store(plan, command.groups("keys")) + _copied(world, command, plan)


def load(world: World, command: Command) -> str:
    """load SESSION TRANSFER keys=... [lease=REQUEST] [blocks=...] [gen=] [deadline=60s] [groups=0..] [copy=done]"""
    plan = world.ledger.begin_load(
        world.session(command),
        TransferId(int(command.word(1))),
        world.generation(command),
        world.blocks(command),
        lease=world.names.leases.get(command.option("lease")),
        deadline_s=command.seconds("deadline", 60),
        now=world.now,
    )
    return wording.load(plan, command.groups("keys")) + _copied(world, command, plan)


def _copied(world: World, command: Command, plan: TransferPlan) -> str:
    """With `copy=done` the copies of a transfer are made at once."""
    if command.option("copy") != "done":
        return ""
    world.ledger.start(plan.session, plan.transfer)
    state = world.ledger.finish(plan.session, plan.transfer, (), now=world.now)
    return "\nnothing to copy" if state is None else f"\n{state.name}"


def start(world: World, command: Command) -> str:
    """start SESSION TRANSFER: its copies are about to begin"""
    started = world.ledger.start(world.session(command), TransferId(int(command.word(1))))
    return "copying" if started else "ended already, nothing is copied"


def wanted(world: World, command: Command) -> str:
    """wanted SESSION TRANSFER: what the device asks between two pieces of a large copy"""
    transfer = TransferId(int(command.word(1)))
    return "yes" if world.ledger.is_wanted(world.session(command), transfer) else "no"


def finish(world: World, command: Command) -> str:
    """finish SESSION TRANSFER [fail=POSITIONS] [rank=0]: its copies have ended"""
    rank = command.number("rank", 0)
    failures = [BlockFailure(at, rank, "broken") for at in command.numbers("fail")]
    session, transfer = world.session(command), TransferId(int(command.word(1)))
    state = world.ledger.finish(session, transfer, failures, now=world.now)
    return "unknown, ignored" if state is None else state.name


def cancel(world: World, command: Command) -> str:
    """cancel SESSION TRANSFERS"""
    transfers = [TransferId(int(number)) for number in command.word(1).split(",")]
    ended, abandoned = world.ledger.cancel(world.session(command), transfers, now=world.now)
    return f"{ended} ended, {abandoned} abandoned"


def lookup(world: World, command: Command) -> str:
    """lookup SESSION keys=... [hold=REQUEST] [every=ready] [ttl=30s] [touch=yes] [states=yes] [gen=]"""
    groups, request = world.keys(command), command.option("hold")
    held = Hold.READY if command.option("every") == "ready" else Hold.PREFIX
    options = LookupOptions(
        request=request,
        hold=held if command.has("hold") else Hold.NONE,
        ttl_s=command.seconds("ttl", 30),
        touch=command.option("touch") == "yes",
        want_states=command.option("states") == "yes",
    )
    result = world.ledger.lookup(
        world.session(command),
        world.generation(command),
        [GroupKeys(at, [key(number) for number in group]) for at, group in enumerate(groups)],
        options,
        now=world.now,
    )
    if result.lease is not None:
        world.names.leases[request] = result.lease
    return wording.lookup(result, groups, world.now)


def release(world: World, command: Command) -> str:
    """release SESSION REQUESTS"""
    leases = [
        world.names.leases.get(request, LeaseId(NOWHERE)) for request in command.word(1).split(",")
    ]
    released = world.ledger.release(world.session(command), leases, now=world.now)
    return f"{wording.count(released, 'lease')} released"


def reset(world: World, command: Command) -> str:
    """reset SPACE"""
    return wording.reset(world.ledger.reset(world.space(command), now=world.now))


def drop(world: World, command: Command) -> str:
    """drop SPACE"""
    dropped = world.ledger.drop_space(world.space(command), now=world.now)
    return f"{wording.count(dropped, 'block')} dropped"


def drained(world: World, command: Command) -> str:
    """drained SPACE GENERATION: what a caller who waits for a reset asks"""
    space, generation = world.space(command), int(command.word(1))
    stores, loads = world.ledger.running_before(space, generation)
    if world.ledger.is_drained(space, generation):
        assert not stores + loads
        return "yes"
    return f"no, {wording.running(stores, loads)}"


def sweep(world: World, command: Command) -> str:
    """sweep: hand back one batch of dropped slots"""
    return "some may be left" if world.ledger.sweep() else "none left"


def zero(world: World, _command: Command) -> str:
    """zero: take what is to be zeroed next"""
    pieces = world.ledger.begin_zeroing()
    if pieces is None:
        return "nothing"
    return "\n".join(f"bytes {piece.start}..{piece.stop - 1}" for piece in pieces) or "no bytes"


def zeroed(world: World, _command: Command) -> str:
    """zeroed: that was done"""
    world.ledger.end_zeroing()
    return "more waits" if world.ledger.has_dirt else "no more waits"
