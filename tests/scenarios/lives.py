"""Commands about the pool, the life of sessions, their streams, and the passing of time."""

from core.engines import SLOT_BYTES, identity, make_ledger, named_policy
from kvstow.server.core.books import Limits
from kvstow.server.core.types import SessionEnd
from scenarios import wording
from scenarios.script import Command, seconds
from scenarios.world import Names, World


def pool(world: World, command: Command) -> str:
    """pool slots=N [extent=SLOTS] [policy=lru] [admit=SIGHT] [transfers= leases= sessions= spaces= tenantspaces= events= grace= keys= tighten= history=] [zero=TENANTS]"""
    standard = Limits()
    limits = Limits(
        max_keys=command.number("keys", standard.max_keys),
        max_transfers=command.number("transfers", standard.max_transfers),
        max_leases=command.number("leases", standard.max_leases),
        max_sessions=command.number("sessions", standard.max_sessions),
        max_spaces=command.number("spaces", standard.max_spaces),
        max_tenant_spaces=command.number("tenantspaces", standard.max_spaces),
        max_tightened=command.number("tighten", standard.max_tightened),
        max_history=command.number("history", standard.max_history),
        max_events=command.number("events", standard.max_events),
        grace_s=command.seconds("grace", standard.grace_s),
    )
    slots = command.number("slots", 4)
    world.names, world.read, world.mentioned = Names(), {}, []
    world.ledger = make_ledger(
        slots,
        extent_bytes=command.number("extent", slots) * SLOT_BYTES,
        policy=named_policy(command.option("policy", "lru")),
        threshold=command.number("admit", 1),
        limits=limits,
        zeroes=command.option("zero").split(",").__contains__,
    )
    return "ok"


def open_session(world: World, command: Command) -> str:
    """open SESSION [model=m] [weights=1] [bytes=64/...] [ranks=1] [attach=0..] [blocks=100] [key=8] [stream=open] [name=engine] [tenant=tenant]"""
    name, model, weights = command.word(0), command.option("model", "m"), command.option("weights")
    world_size = command.number("ranks", 1)
    sizes = [int(size) for size in command.option("bytes", str(SLOT_BYTES)).split("/")]
    ranks = command.numbers("attach", f"0..{world_size - 1}")
    block_counts = (command.number("blocks", 100),) * len(sizes)
    streams = command.option("stream", "open") == "open"
    key_bytes = command.number("key", 8)
    found = identity(
        model,
        weights=weights,
        block_bytes=sizes,
        world_size=world_size,
        key_bytes=key_bytes,
        tenant=command.option("tenant", "tenant"),
    )
    session = world.ledger.open_session(found, command.option("name", "engine"), now=world.now)
    for rank in ranks:
        world.ledger.attach(session, rank, block_counts)
    if streams:
        world.ledger.open_stream(session)
    space, generation = world.ledger.space_of(session)
    label = f"{model}@{weights}" if weights else model
    world.names.sessions[name], world.names.spaces[label] = session, space
    return f"{name} joins {label} at generation {generation}"


def attach(world: World, command: Command) -> str:
    """attach SESSION rank=N [blocks=100/...]"""
    counts = tuple(int(count) for count in command.option("blocks", "100").split("/"))
    world.ledger.attach(world.session(command), command.number("rank", 0), counts)
    return "attached"


def detach(world: World, command: Command) -> str:
    """detach SESSION rank=N"""
    world.ledger.detach(world.session(command), command.number("rank", 0))
    return "detached"


def close(world: World, command: Command) -> str:
    """close SESSION: the engine ends it"""
    world.ledger.end_session(world.session(command), SessionEnd.CLOSED, now=world.now)
    return "closed"


def kill(world: World, command: Command) -> str:
    """kill SESSION: the engine's process is seen to be dead"""
    world.ledger.end_session(world.session(command), SessionEnd.PROCESS_DIED, now=world.now)
    return "ended"


def watch(world: World, command: Command) -> str:
    """watch SESSION: a stream is opened"""
    return f"stream {world.ledger.open_stream(world.session(command))}"


def unwatch(world: World, command: Command) -> str:
    """unwatch SESSION STREAM: a stream is lost"""
    world.ledger.close_stream(world.session(command), int(command.word(1)), now=world.now)
    return "lost"


def events(world: World, command: Command) -> str:
    """events SESSION [after=] [count=100]: read on from the last event read, or from another one"""
    session = world.session(command)
    after = command.number("after", world.read.get(session, 0))
    found = world.ledger.events(session, after, command.number("count", 100))
    world.read[session] = max([after, *(number for number, _ in found)])
    return "\n".join(f"#{number} {wording.event(event)}" for number, event in found) or "none"


def acknowledge(world: World, command: Command) -> str:
    """ack SESSION [NUMBER]: everything up to the last event read, or up to another one"""
    session = world.session(command)
    last = int(command.word(1) or world.read.get(session, 0))
    world.ledger.acknowledge(session, last)
    return f"up to #{last}"


def told(world: World, _command: Command) -> str:
    """told: whose readers are to be woken"""
    names = world.ledger.take_told()
    return " ".join(sorted(map(world.names.session, names))) or "nobody"


def advance(world: World, command: Command) -> str:
    """advance TIME: the time passes, and what falls due is done"""
    world.now += seconds(command.word(0))
    leases, overdue, ended = [], [], []
    while (due := world.ledger.next_deadline()) is not None and due <= world.now:
        expired = world.ledger.expire(now=world.now)
        leases += [f"{world.names.lease(lease)}: lease expired" for lease in expired.leases]
        overdue += [
            f"{world.names.session(session)}/{transfer}: overdue"
            for session, transfer in expired.overdue
        ]
        ended += [f"{world.names.session(session)}: ended" for session in expired.sessions]
    return "\n".join(leases + overdue + ended) or "nothing fell due"


def drain(world: World, _command: Command) -> str:
    """drain: every session hears that the daemon is shutting down"""
    world.ledger.announce_drain(now=world.now)
    return "announced"
