"""The command itself."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from kvstow.cli.connection import chosen_target, connected
from kvstow.cli.options import AsJson
from kvstow.cli.printing import console, print_json
from kvstow.cli.replay import parsed_size

from .examination import examine
from .findings import Finding, Level
from .scene import look

_STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILURE: "bold red"}
_INDENT = " " * 26


def doctor(
    pool_size: Annotated[
        int | None,
        typer.Option(
            parser=parsed_size,
            metavar="SIZE",
            help="Without a daemon: whether a pool of this size would fit here, such as 64GiB.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check what goes wrong in the field, and say what to change.

    Looks at the socket, the daemon, its memory, its isolation from this side, GPUs, versions and clocks. Run it where the
    engine runs, and once more where the daemon runs if these are different containers. Exit code: 0 if there is no
    failure (warnings do not count), 1 if there is one.
    """
    target = chosen_target()
    with connected() as client:
        findings = examine(look(target, client, pool_size))
    counts = Counter(finding.level for finding in findings)
    if as_json:
        print_json(
            {
                "target": target,
                "failures": counts[Level.FAILURE],
                "warnings": counts[Level.WARNING],
                "checks": [dict(finding.row()) for finding in findings],
            }
        )
    else:
        _print(findings)
        typer.echo(f"failures: {counts[Level.FAILURE]}, warnings: {counts[Level.WARNING]}")
    if counts[Level.FAILURE]:
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    screen = console()
    for finding in findings:
        level = finding.level
        line = Text.assemble(
            (f"{level.value:9}", _STYLES[level]), f"{finding.check:17}", finding.found
        )
        screen.print(line, soft_wrap=True)
        if finding.advice:
            screen.print(Text(f"{_INDENT}to do: {finding.advice}"), soft_wrap=True)
