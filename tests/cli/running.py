"""Commands run in this process, against a daemon in another."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kvstow.cli.app import app
from kvstow.client import Client
from support.client_engine import PATIENT
from support.kvstowd import Kvstowd


def invoke(words: Sequence[str], **how: Any) -> Result:
    """Run a command that is as patient as the tests are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvstow.cli.connection.Client", partial(Client, budgets=PATIENT))
        return CliRunner().invoke(app, words, **how)


def run(daemon: Kvstowd, *words: str, answer: str = "") -> Result:
    """Run a command against the daemon."""
    return invoke(words, input=answer, env={"KVSTOW_TARGET": daemon.target, "COLUMNS": "160"})


def ask(daemon: Kvstowd, *words: str) -> Any:
    """Run a command with --json; returns what it prints."""
    result = run(daemon, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@contextmanager
def emptied(daemon: Kvstowd) -> Iterator[None]:
    """A daemon that is without spaces again afterwards, once its engines are gone."""
    yield
    with Client(daemon.target, PATIENT) as client:
        for space in client.administration.spaces():
            client.administration.drop_space(space.space_id)
