"""The commands of `kvstow`."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvstow.client import Client, Unreachable, default_target
from kvstow.v1 import reset_pb2

from . import replay, rows, tables, top
from .connection import connected, why_unreachable

app = typer.Typer(
    name="kvstow",
    help="Shows and steers a running kvstowd.",
    epilog="Exit codes: 1 the daemon said no, 2 the command line is wrong, 3 no daemon answers, "
    "4 the trace cannot be used.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_PIPE_COLUMNS = 160
"""What a table may take up where there is no screen."""

Target = Annotated[
    str,
    typer.Option(
        envvar="KVSTOW_TARGET",
        help="The daemon: unix:/path/of/its/socket or host:port.",
        default_factory=default_target,
        show_default="its default socket",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvstow {version('kvstow')}")
        raise typer.Exit


@app.callback()
def _all_commands(
    say_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def status(target: Target, as_json: AsJson = False) -> None:
    """Say who the daemon is, whether it takes work, and how its host pool is used."""
    with connected(target) as client:
        info, stats = client.server_info(), client.administration.stats()
    if as_json:
        slots = [rows.slots_row(slots) for slots in stats.slots]
        _print_json(rows.server_row(info) | {"free_extents": stats.free_extents, "slots": slots})
    else:
        _print(tables.server_table(target, info))
        _print(tables.pool_table(stats))


@app.command()
def spaces(target: Target, as_json: AsJson = False) -> None:
    """List the spaces with what they hold."""
    with connected(target) as client:
        listed = client.administration.spaces()
    if as_json:
        _print_json([rows.space_row(space) for space in listed])
    else:
        _print(tables.spaces_table(listed))


@app.command()
def sessions(target: Target, as_json: AsJson = False) -> None:
    """List the engines that are connected."""
    with connected(target) as client:
        listed = client.administration.sessions()
    if as_json:
        _print_json([rows.session_row(session) for session in listed])
    else:
        _print(tables.sessions_table(listed))


@app.command()
def transfers(
    target: Target,
    as_json: AsJson = False,
    limit: Annotated[
        int, typer.Option(min=1, max=2**32 - 1, help="List at most this many.")
    ] = 1000,
) -> None:
    """List the transfers that have not ended, oldest first."""
    with connected(target) as client:
        listed = client.administration.transfers(limit)
    if as_json:
        found = [rows.transfer_row(transfer) for transfer in listed.transfers]
        _print_json({"total_count": listed.total_count, "transfers": found})
    else:
        _print(tables.transfers_table(listed))


@app.command()
def reset(
    target: Target,
    space: Annotated[
        int | None, typer.Option(min=1, max=2**64 - 1, help="The space to empty.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Empty every space.")] = False,
    wait: Annotated[
        float,
        typer.Option(min=0, max=60, help="Wait at most so many seconds for abandoned copies."),
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Empty a space, or all of them: nothing stored before is found any more."""
    if (space is not None) == every:
        raise typer.BadParameter("name a space with --space, or say --all")
    if every and not yes:
        typer.confirm("Empty every space of the daemon?", abort=True, err=True)
    with connected(target) as client:
        results = _reset(client, space, wait)
    if as_json:
        _print_json([rows.reset_row(number, result) for number, result in results.items()])
    else:
        _print(tables.resets_table(results))


@app.command(name="top")
def show_top(
    target: Target,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 1.0,
    count: Annotated[int, typer.Option(min=0, help="End after so many; 0: never.")] = 0,
) -> None:
    """Watch what the daemon does, until Ctrl-C."""
    console = _console()
    with (
        suppress(KeyboardInterrupt),
        connected(target) as client,
        Live(console=console, auto_refresh=False) as live,
    ):
        before = top.look(client)
        shown = 0
        while shown < count or not count:
            time.sleep(interval)
            try:
                now = top.look(client)
                live.update(top.screen(before, now), refresh=True)
                before = now
            except Unreachable as error:
                live.update(Text(why_unreachable(target, error)), refresh=True)
            shown += 1
    if not console.is_terminal:  # where there is one, the screen ends its own last line
        console.line()


app.command()(replay.replay)


def _reset(
    client: Client, space: int | None, wait_s: float
) -> Mapping[int, reset_pb2.ResetResult]:
    if space is not None:
        return {space: client.administration.reset_space(space, wait_s)}
    results = client.administration.reset_all(wait_s)
    return {result.space_id: result.result for result in results}


def _print(table: Table) -> None:
    width = None if sys.stdout.isatty() else _PIPE_COLUMNS
    _console(width).print(table)


def _console(width: int | None = None) -> Console:
    """What engines call themselves is shown as it is: brackets in it are no markup."""
    return Console(width=width, markup=False)


def _print_json(value: rows.Row | Sequence[rows.Row]) -> None:
    typer.echo(json.dumps(value, indent=2))
