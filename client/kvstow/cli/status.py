"""`kvstow status`: who the daemon is, whether it takes work, and with which settings."""

import time
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

from kvstow.client import Client, Unreachable
from kvstow.v1 import admin_pb2, cache_pb2

from . import rows, tables
from .connection import REFUSED, UNREACHABLE, chosen_target, connected, fail, why_unreachable
from .options import AsJson
from .printing import print_json, print_table

Inside: TypeAlias = tuple[admin_pb2.GetStatsResponse, Sequence[admin_pb2.Setting]]

_PERIOD_S = 0.2
"""Between two questions whether the daemon is ready."""


def status(
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=86400,
            metavar="SECONDS",
            help="Wait until the daemon takes work, at most so long; then the exit code says "
            "whether it does. 0 asks once.",
        ),
    ] = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Also list the settings that have their defaults.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say who the daemon is, whether it takes work, how its host pool is used, and its settings.

    Without --wait the exit code is 0 as soon as the daemon answers. With --wait it is 0 if it takes work in time, 1 if
    it answers and does not (it prepares its pool, or shuts down), 3 if it does not answer.
    """
    target = chosen_target()
    with connected() as client:
        if wait is not None:
            _wait_ready(client, target, wait)
        info = client.server_info()
        inside = None if info.role == cache_pb2.ROLE_ENGINE else _look_inside(client)
    if as_json:
        print_json(rows.server_row(info) | _inside_row(inside))
        return
    print_table(tables.server_table(target, info))
    if inside is None:
        typer.echo("The use of the pool and the settings are not shown to an engine's token.")
        return
    stats, in_force = inside
    print_table(tables.pool_table(stats))
    print_table(tables.settings_table(in_force, every=settings))


def _look_inside(client: Client) -> Inside:
    """What engines may not know, and so are not asked for."""
    return client.administration.stats(), client.administration.settings()


def _inside_row(inside: Inside | None) -> rows.Row:
    if inside is None:
        return {"free_extents": None, "slots": None, "settings": None}
    stats, in_force = inside
    return {
        "free_extents": stats.free_extents,
        "slots": [rows.slots_row(slots) for slots in stats.slots],
        "settings": rows.settings_row(in_force),
    }


def _wait_ready(client: Client, target: str, wait_s: float) -> None:
    """Return once the daemon takes work; end the command if that does not come in time."""
    until = time.monotonic() + wait_s
    while True:
        try:
            state = client.server_info().state
        except Unreachable as error:
            lack, code = why_unreachable(target, error), UNREACHABLE
        else:
            if state == cache_pb2.SERVER_STATE_READY:
                return
            said = rows.STATES.get(state, "in a state that this kvstow does not know")
            lack, code = f"the daemon at {target} is {said}. See its log.", REFUSED
        left_s = until - time.monotonic()
        if left_s <= 0:
            fail(lack if wait_s == 0 else f"after {wait_s:g} s: {lack}", code)
        time.sleep(min(_PERIOD_S, left_s))
