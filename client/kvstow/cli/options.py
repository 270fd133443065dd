"""Options that several commands have."""

from pathlib import Path
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
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar="KVSTOW_CA_FILE",
        help="Over TCP: PEM file of the authorities of the daemon's certificate; the connection is encrypted then.",
    ),
]
CertFile = Annotated[
    Path | None,
    typer.Option(
        "--cert-file", envvar="KVSTOW_CERT_FILE", help="PEM file of a certificate of your own."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", envvar="KVSTOW_KEY_FILE", help="PEM file of its key."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="KVSTOW_TOKEN_FILE",
        help="File of the token that the daemon knows you by.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
