"""`kvstow top`: looks at the daemon again and again."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer
from rich.live import Live
from rich.text import Text

from kvstow.client import Client, Unreachable

from . import top
from .connection import chosen_target, connected, why_unreachable
from .options import AsJson
from .printing import console

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
        _json_lines() if as_json else _live_screen() as show,
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
def _live_screen() -> Iterator[Show]:
    screen = console()
    with Live(console=screen, auto_refresh=False) as live:
        yield lambda before, now: live.update(
            Text(now) if isinstance(now, str) else top.screen(before, now), refresh=True
        )
    if not screen.is_terminal:  # where there is one, the screen ends its own last line
        screen.line()


@contextmanager
def _json_lines() -> Iterator[Show]:
    yield lambda before, now: typer.echo(
        json.dumps({"error": now} if isinstance(now, str) else asdict(top.flow(before, now)))
    )
