"""The live screen: what the daemon does right now, from the differences of two looks at it.

Bytes are known only where a block has one size: for spaces with one group.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvstow.client import Client
from kvstow.v1 import admin_pb2, cache_pb2

from .rows import STATES, block_bytes
from .tables import pool_table
from .words import duration, ratio, size


@dataclass(frozen=True, slots=True)
class Look:
    """The daemon at one moment.

    Attributes:
        at: when, in seconds on a clock that only rises.
        spaces: by id.
        oldest: the oldest transfer, if there is one, and how many there are.
    """

    at: float
    info: cache_pb2.GetServerInfoResponse
    spaces: Mapping[int, admin_pb2.Space]
    session_count: int
    oldest: admin_pb2.ListTransfersResponse
    stats: admin_pb2.GetStatsResponse


def look(client: Client) -> Look:
    """Look at the daemon now.

    Raises:
        Refused, Unreachable: it does not say.
    """
    administration = client.administration
    return Look(
        at=time.monotonic(),
        info=client.server_info(),
        spaces={space.space_id: space for space in administration.spaces()},
        session_count=len(administration.sessions()),
        oldest=administration.transfers(limit=1),
        stats=administration.stats(),
    )


def screen(before: Look, now: Look) -> RenderableType:
    """What happened between two looks."""
    return Group(_summary(now), Text(), _spaces(before, now), Text(), pool_table(now.stats))


def _summary(now: Look) -> Text:
    ages: Sequence[admin_pb2.Transfer] = now.oldest.transfers
    oldest = f", the oldest for {duration(ages[0].age_s)}" if ages else ""
    return Text(
        f"kvstowd {now.info.version}, {STATES.get(now.info.state, 'unknown')}, up "
        f"{duration(now.info.uptime_s)}: {now.session_count} sessions, "
        f"{now.oldest.total_count} transfers in flight{oldest}"
    )


def _spaces(before: Look, now: Look) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("space", justify="right")
    table.add_column("model")
    for name in ("ready", "writing", "lookups/s", "hits", "hits ever", "stored/s", "loaded/s"):
        table.add_column(name, justify="right")
    for number, space in now.spaces.items():
        earlier = before.spaces.get(number, space)
        table.add_row(
            str(number), space.identity.model, *_rates(earlier, space, now.at - before.at)
        )
    return table


def _rates(before: admin_pb2.Space, now: admin_pb2.Space, elapsed_s: float) -> list[str]:
    old, new = before.counters, now.counters
    hits = new.hit_count - old.hit_count
    return [
        str(now.ready_count),
        str(now.writing_count),
        f"{_per_second(new.lookups - old.lookups, elapsed_s):.1f}",
        ratio(hits, _asked(new) - _asked(old)),
        ratio(new.hit_count, _asked(new)),
        _flow(now, new.stored_count - old.stored_count, elapsed_s),
        _flow(now, new.loaded_count - old.loaded_count, elapsed_s),
    ]


def _asked(counters: admin_pb2.SpaceCounters) -> int:
    return counters.hit_count + counters.pending_count + counters.missed_count


def _flow(space: admin_pb2.Space, blocks: int, elapsed_s: float) -> str:
    layout = space.identity.layout
    rate = _per_second(blocks, elapsed_s)
    if len(layout.groups) > 1:
        return f"{rate:.1f} blocks"
    return size(rate * block_bytes(layout.groups[0], layout.world_size))


def _per_second(count: int, elapsed_s: float) -> float:
    return count / elapsed_s if elapsed_s else 0.0
