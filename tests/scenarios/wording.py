"""How outcomes read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from kvstow.server.core.books import Counters
from kvstow.server.core.errors import Refusal
from kvstow.server.core.events import (
    Draining,
    Event,
    LeaseExpired,
    ResetDrained,
    Resync,
    SpaceReset,
    TransferEnded,
    TransferOverdue,
)
from kvstow.server.core.evictions import Evictions
from kvstow.server.core.snapshot import LeaseView, SessionView, SpaceView, TableView, TransferView
from kvstow.server.core.spaces import SpaceCounters
from kvstow.server.core.types import (
    BlockFailure,
    Fate,
    GroupHits,
    KeyFate,
    KeyState,
    LookupResult,
    ResetResult,
    StoreStatus,
    TransferPlan,
)

TIMELESS = (Fate.READY, Fate.WRITING, Fate.UNKNOWN)


def numbers(found: Iterable[int]) -> str:
    """Numbers in their order, three or more in a row as `first..last`."""
    runs: list[list[int]] = []
    for number in found:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(
        f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs
    )


def count(number: int, thing: str) -> str:
    """`1 block`, `2 blocks`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def refusal(error: Refusal, names: Mapping[str, Mapping[str, str]]) -> str:
    """The stable reason and the facts; `names` says what ids of sessions and spaces are called in the script."""
    facts = [
        f" {name}={names.get(name, {}).get(value, value)}" for name, value in error.facts.items()
    ]
    return f"refused {error.reason}" + "".join(facts)


def store(plan: TransferPlan, groups: Sequence[Sequence[int]]) -> str:
    """One line for blocks that follow each other and share their fate."""
    slots = {
        position: slot
        for copies in plan.copies
        for position, slot in zip(copies.positions, copies.slots, strict=True)
    }
    lines, start = ["repeated"] if plan.repeated else [], 0
    for at, keys in enumerate(groups):
        positions = range(start, start + len(keys))
        for letter, run in groupby(positions, lambda position: plan.statuses[position]):
            offered = list(run)
            line = f"{numbers(keys[position - start] for position in offered)} {StoreStatus(letter).name}"
            where = numbers(slots[position] for position in offered if position in slots)
            lines.append(_group(at, groups) + line + (f" in slots {where}" if where else ""))
        start += len(keys)
    return "\n".join(lines)


def load(plan: TransferPlan, groups: Sequence[Sequence[int]]) -> str:
    """What is read from where."""
    lines = ["repeated"] if plan.repeated else []
    for copies in filter(lambda copies: copies.slots, plan.copies):
        keys = numbers(groups[copies.group])
        lines += [f"{_group(copies.group, groups)}{keys} from slots {numbers(copies.slots)}"]
    return "\n".join(lines)


def lookup(result: LookupResult, groups: Sequence[Sequence[int]], now: float) -> str:
    """What was found, and how long it is held."""
    lines = [
        _group(at, groups) + _hits(hits, len(keys))
        for at, (hits, keys) in enumerate(zip(result.groups, groups, strict=True))
    ]
    if result.lease_expires_at is not None:
        lines.append(f"held for {result.lease_expires_at - now:g}s")
    return "\n".join(lines)


def keys(letters: Sequence[str], groups: Sequence[Sequence[int]]) -> str:
    """Which keys are READY and which WRITING."""
    lines = []
    for at, (states, asked) in enumerate(zip(letters, groups, strict=True)):
        for state in (KeyState.READY, KeyState.WRITING):
            found = [
                key for key, letter in zip(asked, states, strict=True) if letter == state.value
            ]
            if found:
                lines.append(f"{_group(at, groups)}{state.name} {numbers(found)}")
    return "\n".join(lines) or "nothing"


def reset(result: ResetResult) -> str:
    """What a reset did, and whether anything of the old generation still runs."""
    parts = [f"generation {result.generation}"]
    if result.dropped_count:
        parts.append(f"{count(result.dropped_count, 'block')} dropped")
    if result.ended_count:
        parts.append(f"{count(result.ended_count, 'queued transfer')} ended")
    left = running(result.abandoned_stores, result.abandoned_loads)
    return ", ".join([*parts, "drained" if result.drained else left])


def running(stores: int, loads: int) -> str:
    """Transfers whose copies go on although a reset has abandoned them."""
    return f"{count(stores, 'store')} and {count(loads, 'load')} still running"


def event(found: Event) -> str:
    """One line per event."""
    match found:
        case TransferEnded(transfer, kind, state, failures):
            return f"{kind.value} {transfer} ended {state.name}" + "".join(_failures(failures))
        case TransferOverdue(transfer, kind, age_s):
            return f"{kind.value} {transfer} overdue after {age_s:g}s"
        case SpaceReset(generation):
            return f"reset to generation {generation}"
        case ResetDrained(generation):
            return f"reset to generation {generation} drained"
        case LeaseExpired(_, request):
            return f"lease of {request} expired"
        case Draining():
            return "the daemon is shutting down"
        case Resync(lost_count):
            return f"resync, {count(lost_count, 'event')} lost"


def table(view: TableView) -> str:
    """Slots of one size by state."""
    states = {
        "free": view.free,
        "evictable": view.evictable,
        "held": view.held,
        "writing": view.writing,
        "quarantined": view.quarantined,
        "zeroing": view.zeroing,
    }
    found = ", ".join(f"{number} {name}" for name, number in states.items() if number)
    return f"{view.slot_bytes} bytes: {count(view.slots, 'slot')}: {found or 'none'}"


def transfer(view: TransferView, session: str) -> str:
    """One unfinished transfer."""
    marks = [", abandoned"] * view.abandoned + [", overdue"] * view.overdue
    return (
        f"{session}/{view.id} {view.kind.value} {view.state.name}, {count(view.blocks, 'block')},"
        f" {view.age_s:g}s old" + "".join(marks)
    )


def lease(view: LeaseView, session: str) -> str:
    """One lease."""
    return f"{session} {view.request}: {count(view.blocks, 'block')}, {view.remaining_s:g}s left"


def session(view: SessionView, name: str) -> str:
    """One session."""
    return (
        f"{name} ({view.name}): ranks {numbers(view.ranks) or 'none'},"
        f" {'streaming' if view.streaming else 'no stream'}, {count(view.transfers, 'transfer')},"
        f" {count(view.leases, 'lease')} on {count(view.held_blocks, 'block')},"
        f" {count(view.unacknowledged, 'unacknowledged event')}"
    )


def space(view: SpaceView, name: str) -> str:
    """One space."""
    draining = f", draining {numbers(view.draining)}" if view.draining else ""
    return (
        f"{name}: generation {view.generation}, {count(view.sessions, 'session')},"
        f" {view.ready_blocks} ready, {view.writing_blocks} writing{draining}"
    )


def counters(found: SpaceCounters) -> str:
    """What a space has counted; what is zero is left out."""
    lookups = {
        "hit": found.hit_blocks,
        "pending": found.pending_blocks,
        "missed": found.missed_blocks,
    }
    blocks = {
        "stored": found.stored_blocks,
        "loaded": found.loaded_blocks,
        "evicted": found.evicted_blocks,
        "dropped": found.dropped_blocks,
    }
    return "\n".join(
        [
            f"{count(found.lookups, 'lookup')}: {_counts(lookups)}",
            f"offered: {_counts(found.offered)}",
            f"blocks: {_counts(blocks)}",
            f"dropped by: {_counts({reason.value: n for reason, n in found.dropped.items()})}",
            f"never stored: {_counts(found.unstored)}",
            count(found.resets, "reset"),
        ]
    )


def evictions(found: Evictions) -> str:
    """How many and why; ages that did not occur are left out."""
    bounds = (*(f"up to {bound:g}s" for bound in found.age_s.bounds), "older")
    ages = dict(zip(bounds, found.age_s.counts, strict=True))
    reasons = {"capacity": found.capacity, "reclaimed": found.reclaimed}
    return f"{_counts(reasons)}\nunused for: {_counts(ages)}, {found.age_s.total:g}s in all"


def fates(found: Sequence[KeyFate], keys: Sequence[int]) -> list[str]:
    """One line for keys that follow each other and share their fate."""
    lines = []
    for fate, run in groupby(zip(found, keys, strict=True), lambda pair: pair[0]):
        when = f" {fate.age_s:g}s ago" if fate.fate not in TIMELESS else ""
        asked = numbers(key for _, key in run)
        lines.append(f"{asked} {fate.fate.name}{when} in generation {fate.generation}")
    return lines


def totals(found: Counters) -> str:
    """What the daemon has counted; what is zero is left out."""
    transfers = {
        f"{kind.value} {state.name}": number for (kind, state), number in found.transfers.items()
    }
    sizes = (*(f"up to {bound:g}" for bound in found.lookup_keys.bounds), "more")
    others = {
        "leases expired": found.leases_expired,
        "transfers overdue": found.overdue,
        "late completions": found.late_completions,
        "events lost": found.events_lost,
        "resyncs": found.resyncs,
    }
    return "\n".join(
        [
            f"{count(found.sessions_opened, 'session')} opened, ended: {_counts(found.session_ends)}",
            f"transfers: {_counts(transfers)}",
            f"dropped by: {_counts({reason.value: n for reason, n in found.dropped.items()})}",
            f"keys of lookups: {_counts(dict(zip(sizes, found.lookup_keys.counts, strict=True)))}",
            _counts(others),
        ]
    )


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in found.items() if number) or "none"


def _group(at: int, groups: Sequence[Sequence[int]]) -> str:
    return f"group {at}: " if len(groups) > 1 else ""


def _hits(hits: GroupHits, asked: int) -> str:
    missed = asked - hits.hit_count - hits.pending_count
    states = f", states {hits.states}" if hits.states else ""
    return f"{hits.hit_count} hit, {hits.pending_count} pending, {missed} missed{states}"


def _failures(failures: Sequence[BlockFailure]) -> Iterator[str]:
    for failure in failures:
        yield f", block at position {failure.position} on rank {failure.rank}: {failure.reason}"
