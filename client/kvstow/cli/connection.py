"""The connection of one command, and how its errors are said.

An error is one line with what to do next. Exit codes: 1 the daemon said no, 2 the command line is
wrong, 3 no daemon answers.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NoReturn

import typer

from kvstow.client import (
    Client,
    Credentials,
    Refused,
    TlsFailed,
    Unreachable,
    default_target,
)
from kvstow.client.target import check_target, is_listening, socket_path

REFUSED = 1
WRONG_COMMAND = 2
UNREACHABLE = 3

SYSTEM_SOCKET = "/run/kvstow/kvstow.sock"
"""Where a daemon is that runs as a service."""

_chosen: ContextVar[Mapping[str, Any]] = ContextVar("chosen", default=MappingProxyType({}))


def choose(options: Mapping[str, Any], *, anew: bool) -> None:
    """Connect so from now on.

    Args:
        options: `target`, and the files of `Credentials`; None where nothing was said.
        anew: forget what was said before.
    """
    said = {name: value for name, value in options.items() if value is not None}
    _chosen.set(said if anew else {**_chosen.get(), **said})


def chosen_target() -> str:
    """The daemon that is asked."""
    return _chosen.get().get("target") or default_target()


@contextmanager
def connected() -> Iterator[Client]:
    """A client whose errors end the command."""
    target = chosen_target()
    try:
        check_target(target)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--target") from None
    files = {name: value for name, value in _chosen.get().items() if name != "target"}
    try:
        connection = Client(target, credentials=Credentials(**files))
    except ValueError as error:
        fail(str(error), WRONG_COMMAND)
    with connection as client:
        try:
            yield client
        except Refused as refused:
            fail(f"{refused}. {refused.next_step}".rstrip(), REFUSED)
        except Unreachable as error:
            fail(why_unreachable(target, error), UNREACHABLE)


def why_unreachable(target: str, error: Unreachable) -> str:
    """What is wrong, and what to do."""
    if isinstance(error, TlsFailed):
        return str(error)
    owner = _owner_who_excludes_us(target)
    if owner is not None:
        return (
            f"{target} belongs to {owner}, and this user may not connect. Run kvstow as {owner} or, "
            "if the socket's mode admits it, as a user of its group; `kvstow doctor` says more."
        )
    if is_listening(target):
        return (
            f"the daemon at {target} does not answer ({error}). See its log, and whether its process "
            "is stopped or short of CPU."
        )
    return (
        f"no daemon listens at {target}. Start kvstowd, or name another with --target or "
        f"KVSTOW_TARGET{found_elsewhere(target)}."
    )


def found_elsewhere(target: str) -> str:
    """The daemon of the system, if it is another and runs: who has a session looks for one of the session."""
    other = f"unix:{SYSTEM_SOCKET}"
    there = other != target and os.path.exists(SYSTEM_SOCKET) and is_listening(other)
    return f"; one listens at {other}" if there else ""


def _owner_who_excludes_us(target: str) -> str | None:
    """Whose the socket is, or the directory that hides it, if this user may not connect."""
    path = socket_path(target)
    if path is None or os.access(path, os.W_OK, effective_ids=True):
        return None
    for place in (path, *path.parents):
        try:
            return place.owner()
        except PermissionError:
            continue  # the directory above hides it
        except KeyError:
            return f"user {place.stat().st_uid}"
        except OSError:
            return None  # there is none
    return None


def fail(line: str, code: int) -> NoReturn:
    """End the command with one line."""
    typer.echo(f"kvstow: {line}", err=True)
    raise typer.Exit(code)
