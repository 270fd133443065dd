"""The commands of `kvstow`."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Annotated

import typer

from kvstow.client import Client
from kvstow.v1 import reset_pb2

from . import replay, rows, tables
from .connection import connected
from .doctor.command import doctor
from .keys import chosen_space
from .misses import misses
from .options import AsJson, asking, for_all
from .printing import print_json, print_table
from .status import status
from .watching import watch
from .why import why_miss

app = typer.Typer(
    name="kvstow",
    help="Shows and steers a running kvstowd, and plans for one.",
    epilog="Exit codes: 1 the daemon said no, 2 the command line is wrong, 3 no daemon answers, "
    "4 the trace cannot be used.",
    rich_markup_mode="markdown",  # paragraphs of docstrings are filled, not broken where their source is
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvstow {version('kvstow')}")
        raise typer.Exit


@app.callback()
@for_all
def _all_commands(
    say_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Nothing is left to do once the options are read."""


@app.command()
@asking
def spaces(as_json: AsJson = False) -> None:
    """List the spaces with what they hold."""
    with connected() as client:
        listed = client.administration.spaces()
    if as_json:
        print_json([rows.space_row(space) for space in listed])
    else:
        print_table(tables.spaces_table(listed))


@app.command()
@asking
def sessions(as_json: AsJson = False) -> None:
    """List the engines that are connected."""
    with connected() as client:
        listed = client.administration.sessions()
    if as_json:
        print_json([rows.session_row(session) for session in listed])
    else:
        print_table(tables.sessions_table(listed))


@app.command()
@asking
def transfers(
    as_json: AsJson = False,
    limit: Annotated[
        int, typer.Option(min=1, max=2**32 - 1, help="List at most this many.")
    ] = 1000,
    stuck: Annotated[
        bool, typer.Option("--stuck", help="Only those past their deadline, and what to do.")
    ] = False,
) -> None:
    """List the transfers that have not ended, oldest first."""
    with connected() as client:
        listed = client.administration.transfers(limit, overdue_only=stuck)
    if as_json:
        row = rows.stuck_row if stuck else rows.transfer_row
        found = [row(transfer) for transfer in listed.transfers]
        print_json({"total_count": listed.total_count, "transfers": found})
    elif stuck:
        print_table(tables.stuck_table(listed))
    else:
        print_table(tables.transfers_table(listed))


@app.command()
@asking
def reset(
    space: Annotated[
        str, typer.Option(help="Id of the space to empty, or its model.", show_default=False)
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Empty every space.")] = False,
    wait: Annotated[
        float,
        typer.Option(min=0, max=60, help="Wait at most so many seconds for abandoned copies."),
    ] = 0.0,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Empty a space, or all of them: nothing stored before is found any more."""
    if bool(space) == every:
        raise typer.BadParameter("name a space with --space or say --all, and not both")
    if every and not yes:
        typer.confirm("Empty every space of the daemon?", abort=True, err=True)
    with connected() as client:
        results = _reset(client, space, wait)
    if as_json:
        print_json([rows.reset_row(number, result) for number, result in results.items()])
    else:
        print_table(tables.resets_table(results))


app.command()(asking(status))
app.command(name="top")(asking(watch))
app.command()(asking(doctor))
app.command()(asking(misses))
app.command(name="why-miss")(asking(why_miss))
app.command()(replay.replay)


def _reset(client: Client, named: str, wait_s: float) -> Mapping[int, reset_pb2.ResetResult]:
    if named:
        number = chosen_space(client.administration.spaces(), named).space_id
        return {number: client.administration.reset_space(number, wait_s)}
    results = client.administration.reset_all(wait_s)
    return {result.space_id: result.result for result in results}
