"""Commands run in this process, against a daemon in another."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner, Result

from kvstow.cli.app import app
from kvstow.client import Client
from support.kvstowd import Kvstowd


def run(daemon: Kvstowd, *words: str, answer: str = "") -> Result:
    """Run a command against the daemon."""
    return CliRunner().invoke(
        app, words, input=answer, env={"KVSTOW_TARGET": daemon.target, "COLUMNS": "160"}
    )


def ask(daemon: Kvstowd, *words: str) -> Any:
    """Run a command with --json; returns what it prints."""
    result = run(daemon, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@contextmanager
def emptied(daemon: Kvstowd) -> Iterator[None]:
    """A daemon that is without spaces again afterwards, once its engines are gone."""
    yield
    with Client(daemon.target) as client:
        for space in client.administration.spaces():
            client.administration.drop_space(space.space_id)
