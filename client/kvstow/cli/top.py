"""The live screen: what the daemon does right now, from the differences of two looks at it.

`flow` computes it as plain values, which are what `--json` prints; `screen` shows them. The bytes that one space moves
are known only where its blocks have one size: in spaces with one group.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from kvstow.client import Client
from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2

from .listing import NAME, NUMBER, Listing, Sentence
from .rows import STATES, block_bytes
from .tables import model, pool_table
from .words import duration, percent, share, size


@dataclass(frozen=True, slots=True)
class Look:
    """The daemon at one moment.

    Attributes:
        at: when, in seconds on a clock that only rises.
        spaces: by id.
        oldest: the oldest transfer, if there is one, and how many there are.
        overdue_count: transfers past their deadline.
    """

    at: float
    info: cache_pb2.GetServerInfoResponse
    spaces: Mapping[int, admin_pb2.Space]
    session_count: int
    oldest: admin_pb2.ListTransfersResponse
    overdue_count: int
    stats: admin_pb2.GetStatsResponse


def look(client: Client) -> Look:
    """Look at the daemon now.

    Raises:
        Refused, Unreachable: it does not say.
    """
    administration = client.administration
    info, session_count = client.server_info(), len(administration.sessions())
    oldest = administration.transfers(limit=1)
    overdue = administration.transfers(limit=1, overdue_only=True)
    at = time.monotonic()  # rates are those of what is counted, which comes right behind
    spaces = {space.space_id: space for space in administration.spaces()}
    stats = administration.stats()
    return Look(at, info, spaces, session_count, oldest, overdue.total_count, stats)


@dataclass(frozen=True, slots=True)
class SpaceFlow:
    """What happens in a space; counts are of blocks.

    Attributes:
        hit_ratio: of the keys asked for between the looks; None if there were none.
        hit_ratio_ever: of all keys asked for since the space exists.
    """

    space_id: int
    model: str
    ready_count: int
    writing_count: int
    lookups_per_s: float
    hit_ratio: float | None
    hit_ratio_ever: float | None
    stored_per_s: float
    loaded_per_s: float
    evicted_per_s: float


@dataclass(frozen=True, slots=True)
class Flow:
    """What the daemon does.

    Attributes:
        elapsed_s: between the looks; 0 if the daemon was restarted meanwhile.
        oldest_age_s: of the oldest transfer in flight; None if there is none.
        pool_bytes: of the host pool by state, over all slot sizes.
    """

    elapsed_s: float
    state: str
    session_count: int
    in_flight_count: int
    overdue_count: int
    oldest_age_s: float | None
    stored_bytes_per_s: float
    loaded_bytes_per_s: float
    pool_bytes: Mapping[str, int]
    spaces: Sequence[SpaceFlow]


def flow(before: Look, now: Look) -> Flow:
    """What happened between two looks, and how things stand at the later one."""
    if before.info.boot_id != now.info.boot_id:
        before = now
    elapsed_s = now.at - before.at
    oldest = now.oldest.transfers
    return Flow(
        elapsed_s=elapsed_s,
        state=STATES.get(now.info.state, "unknown"),
        session_count=now.session_count,
        in_flight_count=now.oldest.total_count,
        overdue_count=now.overdue_count,
        oldest_age_s=oldest[0].age_s if oldest else None,
        stored_bytes_per_s=_rate(now.stats.stored_bytes, before.stats.stored_bytes, elapsed_s),
        loaded_bytes_per_s=_rate(now.stats.loaded_bytes, before.stats.loaded_bytes, elapsed_s),
        pool_bytes=pool_bytes(now.stats),
        spaces=[
            _space_flow(before.spaces.get(number), space, elapsed_s)
            for number, space in now.spaces.items()
        ],
    )


def pool_bytes(stats: admin_pb2.GetStatsResponse) -> Mapping[str, int]:
    """Bytes of the host pool by state, over all slot sizes; free is also what no slot covers, and what is to be zeroed."""
    taken = {
        "evictable": sum(slots.evictable_count * slots.slot_bytes for slots in stats.slots),
        "held": sum(slots.held_count * slots.slot_bytes for slots in stats.slots),
        "writing": sum(slots.writing_count * slots.slot_bytes for slots in stats.slots),
        "quarantined": sum(slots.quarantined_count * slots.slot_bytes for slots in stats.slots),
    }
    return {"free": stats.pool_bytes - sum(taken.values()), **taken}


def screen(before: Look, now: Look) -> RenderableType:
    """What happens, for people."""
    found = flow(before, now)
    return Group(
        *_heading(now, found),
        Text(),
        _spaces(now, found),
        Text(),
        pool_table(now.stats),
    )


def _space_flow(
    before: admin_pb2.Space | None, now: admin_pb2.Space, elapsed_s: float
) -> SpaceFlow:
    # A space that was not there before has done since then all that it ever did.
    old, new = (before or admin_pb2.Space()).counters, now.counters
    return SpaceFlow(
        space_id=now.space_id,
        model=model(now.identity),
        ready_count=now.ready_count,
        writing_count=now.writing_count,
        lookups_per_s=_rate(new.lookups, old.lookups, elapsed_s),
        hit_ratio=share(new.hit_count - old.hit_count, _asked(new) - _asked(old)),
        hit_ratio_ever=share(new.hit_count, _asked(new)),
        stored_per_s=_rate(new.stored_count, old.stored_count, elapsed_s),
        loaded_per_s=_rate(new.loaded_count, old.loaded_count, elapsed_s),
        evicted_per_s=_rate(new.evicted_count, old.evicted_count, elapsed_s),
    )


def _heading(now: Look, found: Flow) -> Iterator[Sentence]:
    up = f"up {duration(now.info.uptime_s)}: {found.session_count} sessions"
    yield Sentence(f"kvstowd {now.info.version},", f"{found.state},", up)
    in_flight = [f"{found.in_flight_count} transfers in flight"]
    if found.oldest_age_s is not None:
        in_flight.append(f"the oldest for {duration(found.oldest_age_s)}")
    if found.overdue_count:
        in_flight.append(f"{found.overdue_count} past their deadline")
    yield Sentence(
        f"copying: {size(found.stored_bytes_per_s)}/s into the pool,",
        f"{size(found.loaded_bytes_per_s)}/s out of it;",
        *_enumerated(in_flight),
    )
    total = sum(found.pool_bytes.values())
    shares = [f"{percent(count / total)} {state}" for state, count in found.pool_bytes.items()]
    yield Sentence(f"pool of {size(total)}:", *_enumerated(shares))


def _enumerated(parts: Sequence[str]) -> Sequence[str]:
    return [*(f"{part}," for part in parts[:-1]), parts[-1]]


def _spaces(now: Look, found: Flow) -> Listing:
    listing = Listing(
        "",
        {
            "space": NUMBER,
            "model": NAME,
            "ready": NUMBER,
            "writing": NUMBER,
            "lookups/s": NUMBER,
            "hits": NUMBER,
            "hits ever": NUMBER,
            "stored": NUMBER,
            "loaded": NUMBER,
            "evicted/s": NUMBER,
        },
        spare=("writing", "hits ever", "ready", "lookups/s"),
    )
    for space in found.spaces:
        layout = now.spaces[space.space_id].identity.layout
        listing.add_row(
            str(space.space_id),
            space.model,
            str(space.ready_count),
            str(space.writing_count),
            f"{space.lookups_per_s:.1f}",
            percent(space.hit_ratio),
            percent(space.hit_ratio_ever),
            _speed(layout, space.stored_per_s),
            _speed(layout, space.loaded_per_s),
            f"{space.evicted_per_s:.1f}",
        )
    return listing


def _asked(counters: admin_pb2.SpaceCounters) -> int:
    return counters.hit_count + counters.pending_count + counters.missed_count


def _speed(layout: identity_pb2.Layout, blocks_per_s: float) -> str:
    if len(layout.groups) > 1:
        return f"{blocks_per_s:.1f} blocks/s"
    return f"{size(blocks_per_s * block_bytes(layout.groups[0], layout.world_size))}/s"


def _rate(now: int, before: int, elapsed_s: float) -> float:
    return (now - before) / elapsed_s if elapsed_s else 0.0
