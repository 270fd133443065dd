"""Options that several commands have."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from kvstow.client.credentials import VARIABLES

from .connection import choose

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

_PANEL = "Which daemon, and who asks: before or behind the command"
_HELP: dict[str, str] = {
    "target": "The daemon: unix:/path/of/its/socket or host:port.",
    "ca_file": "Over TCP: PEM file of the authorities of the daemon's certificate; the connection is encrypted then.",
    "cert_file": "PEM file of a certificate of your own.",
    "key_file": "PEM file of its key.",
    "token_file": "File of the token that the daemon knows you by.",
}
_VARIABLES = {"target": "KVSTOW_TARGET", **VARIABLES}


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """A command that asks a daemon: with the options that say which one, and who asks."""
    return _with_options(command, everywhere=False)


def for_all(callback: Callable[..., None]) -> Callable[..., None]:
    """What runs before every command: with the same options, and what the environment says of them."""
    return _with_options(callback, everywhere=True)


def _with_options(command: Callable[..., None], *, everywhere: bool) -> Callable[..., None]:
    @wraps(command)
    def run(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in _HELP}
        choose(chosen, anew=everywhere)
        command(**given)

    own = inspect.signature(command)
    options = [_option(name, everywhere=everywhere) for name in _HELP]
    described = cast(Any, run)
    described.__signature__ = own.replace(parameters=[*own.parameters.values(), *options])
    described.__annotations__ = run.__annotations__ | {
        option.name: option.annotation for option in options
    }
    return run


def _option(name: str, *, everywhere: bool) -> inspect.Parameter:
    """An option; behind a command the environment does not count, because it has been looked at before."""
    variable = _VARIABLES[name]
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        envvar=variable if everywhere else None,
        show_envvar=False,
        help=f"{_HELP[name]} ({variable})",
        rich_help_panel=_PANEL,
        show_default="its default socket" if name == "target" else False,
    )
    kind = str if name == "target" else Path
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )
