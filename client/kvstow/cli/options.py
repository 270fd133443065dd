"""Options that several commands have."""

from typing import Annotated

import typer

from kvstow.client import default_target

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
