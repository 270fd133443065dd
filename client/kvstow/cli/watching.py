"""`kvstow top`: looks at the daemon again and again."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from kvstow.client import Client, Unreachable

from . import top
from .connection import chosen_target, connected, why_unreachable
from .options import AsJson
from .printing import console, print_table

Show: TypeAlias = Callable[[top.Look, top.Look | str], None]
"""Shows what happened between two looks; instead of the later one there may be a line that says what is wrong."""


def watch(
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="End after so many; 0: never.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Watch what the daemon does, until Ctrl-C.

    Rates and hit ratios are of the time between two looks. With --json each look is one line.
    """
    target = chosen_target()
    with (
        suppress(KeyboardInterrupt),
        connected() as client,
        _json_lines() if as_json else _screens() as show,
    ):
        before = top.look(client)
        shown = 0
        while shown < count or not count:
            time.sleep(interval)
            now = _look(client, target)
            show(before, now)
            before = before if isinstance(now, str) else now
            shown += 1


def _look(client: Client, target: str) -> top.Look | str:
    try:
        return top.look(client)
    except Unreachable as error:
        return why_unreachable(target, error)


@contextmanager
def _screens() -> Iterator[Show]:
    """Each look takes the place of the one before; where there is no screen it stands below it."""
    screen = console()
    if not screen.is_terminal:
        yield lambda before, now: print_table(Group(_shown(before, now), Text()))
        return
    with Live(console=screen, auto_refresh=False) as live:
        yield lambda before, now: live.update(_shown(before, now), refresh=True)


def _shown(before: top.Look, now: top.Look | str) -> RenderableType:
    return Text(now) if isinstance(now, str) else top.screen(before, now)


@contextmanager
def _json_lines() -> Iterator[Show]:
    yield lambda before, now: typer.echo(
        json.dumps({"error": now} if isinstance(now, str) else asdict(top.flow(before, now)))
    )
