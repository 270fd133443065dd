"""How commands print: tables for people, JSON for programs."""

import json
import sys
from collections.abc import Sequence

import typer
from rich.console import Console, RenderableType

from .rows import Row

_PIPE_COLUMNS = 160
"""What a table may take up where there is no screen."""


def print_table(table: RenderableType) -> None:
    """Print a table, as wide as the screen, without the blanks that fill its lines up."""
    screen = console()
    with screen.capture() as written:
        screen.print(table)
    for line in written.get().splitlines():
        typer.echo(line.rstrip())


def console() -> Console:
    """What engines call themselves is shown as it is: brackets in it are no markup, and colons no emoji."""
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    return Console(width=width, markup=False, emoji=False)


def print_json(value: Row | Sequence[Row]) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, indent=2))
