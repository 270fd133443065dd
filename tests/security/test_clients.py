"""Engines and the command line with credentials, against a daemon of its own process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from cli.running import invoke
from kvstow.client import Client, Credentials, EngineMemory, Refused, SessionState
from security.authority import Authority
from security.rig import ENGINE_A, ENTRIES, READER, STRANGER, entry, write
from support.client_engine import (
    BLOCK_BYTES,
    BLOCK_COUNT,
    IDENTITY,
    PATIENT,
    ClientEngine,
    connected_engine,
)
from support.kvstowd import Kvstowd, running_kvstowd
from support.memory import KEY_BYTES, shared_directory
from support.waiting import wait_for


@pytest.fixture
def tokens(directory: Path) -> Path:
    file = directory / "tokens.toml"
    write(file, ENTRIES)
    return file


@pytest.fixture
def daemon(directory: Path, tokens: Path) -> Iterator[Kvstowd]:
    with running_kvstowd(directory, tokens=tokens, session_grace_s=600) as daemon:
        yield daemon


def token_file(directory: Path, token: str) -> Path:
    path = directory / "token"
    path.write_text(f"{token}\n", encoding="ascii")
    return path


def test_an_engine_outlives_the_replacement_of_its_token(
    daemon: Kvstowd, directory: Path, tokens: Path
) -> None:
    mine = token_file(directory, ENGINE_A)
    with (
        Client(daemon.target, PATIENT, Credentials(token_file=mine)) as client,
        EngineMemory(BLOCK_BYTES * BLOCK_COUNT) as memory,
    ):
        engine = ClientEngine(client, memory)
        with engine.session:
            engine.store([1, 2], [0, 1])
            write(tokens, [entry("engine-a", "engine", "a-newer-token", tenant="a")])
            wait_for(lambda: engine.session.state is SessionState.AWAY, "the end of the old token")
            hits = engine.lookup([1, 2])  # an engine is never told more than that it misses
            assert hits.groups[0].hit_count == 0
            token_file(directory, "a-newer-token")
            engine.wait_open()
            engine.load([1, 2], [2, 3])


def test_an_engine_may_start_before_its_token_is_known(daemon: Kvstowd, directory: Path) -> None:
    mine = token_file(directory, STRANGER)
    with Client(daemon.target, PATIENT, Credentials(token_file=mine)) as client:
        with pytest.raises(Refused, match="UNAUTHENTICATED"):
            client.open(IDENTITY, "engine")
        with client.open(IDENTITY, "engine", must_connect=False) as session:
            assert session.lookup("request", [b"k" * KEY_BYTES]).count == 0
            token_file(directory, ENGINE_A)
            wait_for(lambda: session.state is SessionState.OPEN, "an open session")


def run(daemon: Kvstowd, *words: str, **variables: str) -> Result:
    environment = {"KVSTOW_TARGET": daemon.target, "COLUMNS": "160", **variables}
    return invoke(words, env=environment)


def test_the_command_line_takes_a_token_from_a_flag_or_a_variable(
    daemon: Kvstowd, directory: Path
) -> None:
    mine = str(token_file(directory, READER))
    assert run(daemon, "--token-file", mine, "status").exit_code == 0
    assert run(daemon, "status", KVSTOW_TOKEN_FILE=mine).exit_code == 0
    refused = run(daemon, "--token-file", mine, "reset", "--all", "--yes")
    assert refused.exit_code == 1
    assert "NOT_PERMITTED" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize("token", ["", STRANGER])
def test_the_command_line_says_what_to_do_without_a_token(
    daemon: Kvstowd, directory: Path, token: str
) -> None:
    mine = ("--token-file", str(token_file(directory, token))) if token else ()
    refused = run(daemon, *mine, "status")
    assert refused.exit_code == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("kvstow: UNAUTHENTICATED: ")
    assert "KVSTOW_TOKEN_FILE" in line
    assert STRANGER not in line


def test_the_command_line_names_a_file_that_cannot_be_used(
    daemon: Kvstowd, directory: Path
) -> None:
    wrong = run(daemon, "--token-file", str(directory / "missing"), "status")
    assert wrong.exit_code == 2
    assert wrong.stderr == (
        f"kvstow: cannot read {directory / 'missing'}: No such file or directory\n"
    )


def test_the_command_line_speaks_tls(directory: Path, tokens: Path) -> None:
    authority = Authority(directory)
    cert, key = authority.sign("localhost", "127.0.0.1")
    mine = token_file(directory, READER)
    settings = {
        "tokens": tokens,
        "tls_cert": cert,
        "tls_key": key,
        "tls_client_ca": authority.file,
    }
    with running_kvstowd(directory, listen="127.0.0.1:0", **settings) as daemon:
        target = f"127.0.0.1:{daemon.wait_line('listening')['port']}"
        own_cert, own_key = authority.sign("operator", stem="operator")
        files = ["--ca-file", str(authority.file), "--cert-file", str(own_cert)]
        files += ["--key-file", str(own_key), "--token-file", str(mine)]
        shown = run(daemon, *files, "status", "--target", target)
        assert shown.exit_code == 0, shown.output
        assert run(daemon, *files[:2], "status", "--target", target).exit_code == 3


def test_engine_memory_lies_where_the_daemon_opens_files(directory: Path) -> None:
    with (
        shared_directory() as place,
        running_kvstowd(directory, memory_path=place) as daemon,
    ):
        with connected_engine(daemon.target, directory=place) as engine:
            engine.store([1, 2], [0, 1])
            engine.load([1, 2], [2, 3])
            assert list(place.iterdir()) == [engine.memory.path]
        with pytest.raises(Refused, match="REGION_INVALID"), connected_engine(daemon.target):
            pass
        assert list(place.iterdir()) == []
