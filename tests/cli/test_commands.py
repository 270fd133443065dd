"""The commands of `kvstow`, against a real daemon."""

import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.running import ask, run
from kvstow.cli.app import app
from kvstow.client import Client, Identity
from kvstow.client.administration import Administration
from support.client_engine import BLOCK_BYTES, IDENTITY, PATIENT, ClientEngine
from support.kvstowd import Kvstowd
from support.memory import KEY_BYTES
from support.users import without_privileges
from support.waiting import wait_for


def test_spaces(daemon: Kvstowd, engine: ClientEngine) -> None:
    (space,) = ask(daemon, "spaces")
    assert space["identity"]["model"] == "model"
    assert space["identity"]["group_block_bytes"] == [BLOCK_BYTES]
    assert (space["ready_count"], space["session_count"]) == (3, 1)
    assert (space["hit_count"], space["missed_count"], space["stored_count"]) == (3, 1, 3)
    assert "75.0 %" in run(daemon, "spaces").stdout


def test_sessions(daemon: Kvstowd, engine: ClientEngine) -> None:
    (session,) = ask(daemon, "sessions")
    assert (session["name"], session["streaming"]) == ("engine", True)
    assert (session["attached_ranks"], session["world_size"]) == ([0], 1)
    assert (session["lease_count"], session["held_count"]) == (1, 3)
    assert "1/1" in run(daemon, "sessions").stdout


def test_transfers(daemon: Kvstowd, engine: ClientEngine) -> None:
    assert ask(daemon, "transfers") == {"total_count": 0, "transfers": []}
    assert run(daemon, "transfers").stdout.startswith("transfers: none\n")
    with daemon.held_stores():
        engine.begin_store([5, 6], [5, 6])
        engine.begin_store([7], [7])
        wait_for(
            lambda: ask(daemon, "transfers")["transfers"][0]["state"] == "running", "the copy"
        )
        listed = ask(daemon, "transfers", "--limit", "1")
        assert listed["total_count"] == 2
        (transfer,) = listed["transfers"]
        assert (transfer["kind"], transfer["block_count"]) == ("store", 2)
        assert (transfer["abandoned"], transfer["overdue"]) == (False, False)
        assert "the 1 oldest of 2" in run(daemon, "transfers", "--limit", "1").stdout
        engine.session.reset()
        assert "abandoned" in run(daemon, "transfers").stdout


def test_reset_of_one_space(daemon: Kvstowd, engine: ClientEngine) -> None:
    (space,) = ask(daemon, "spaces")
    (result,) = ask(daemon, "reset", "--space", str(space["space_id"]), "--wait", "1")
    assert (result["dropped_count"], result["drained"]) == (3, True)
    assert result["generation"] == space["generation"] + 1
    assert engine.lookup([1, 2, 3]).count == 0


@pytest.mark.parametrize("which", [["--space", IDENTITY.model], ["--all", "--yes"]])
def test_a_reset_waits_as_long_as_it_was_told(
    daemon: Kvstowd, engine: ClientEngine, monkeypatch: pytest.MonkeyPatch, which: list[str]
) -> None:
    waits: list[float] = []
    for name in ("reset_space", "reset_all"):
        reset = getattr(Administration, name)

        def noted(*arguments: Any, reset: Callable[..., Any] = reset) -> Any:
            waits.append(arguments[-1])
            return reset(*arguments)

        monkeypatch.setattr(Administration, name, noted)
    ask(daemon, "reset", *which, "--wait", "1.5")
    assert waits == [1.5]


def test_a_space_to_reset_is_named_by_its_model_too(daemon: Kvstowd, engine: ClientEngine) -> None:
    ((space,), model) = ask(daemon, "spaces"), IDENTITY.model
    (result,) = ask(daemon, "reset", "--space", model)
    assert (result["space_id"], result["dropped_count"]) == (space["space_id"], 3)


@pytest.mark.parametrize("named", ["999", "0", str(2**64), "none", ""])
def test_no_other_space_is_reset_than_the_one_that_is_named(
    daemon: Kvstowd, engine: ClientEngine, named: str
) -> None:
    result = run(daemon, "reset", "--space", named)
    assert result.exit_code == 2
    assert not named or "kvstow spaces" in result.stderr
    assert engine.lookup([1, 2, 3]).count == 3


def test_what_an_engine_calls_itself_is_no_markup(daemon: Kvstowd) -> None:
    name = "[/bold] and [red] :smile:"
    identity = Identity()
    identity.CopyFrom(IDENTITY)
    identity.model = name
    with Client(daemon.target, PATIENT) as client, client.open(identity, name):
        for words in (["spaces"], ["sessions"], ["top", "--count", "1", "--interval", "0.1"]):
            result = run(daemon, *words)
            assert result.exit_code == 0, result.output
            assert name in result.stdout


def test_reset_of_all_spaces_asks_first(daemon: Kvstowd, engine: ClientEngine) -> None:
    refused = run(daemon, "reset", "--all", answer="n\n")
    assert refused.exit_code == 1
    assert engine.lookup([1, 2, 3]).count == 3
    assert run(daemon, "reset", "--all", answer="y\n").exit_code == 0
    wait_for(lambda: engine.lookup([1, 2, 3]).count == 0, "the reset")
    engine.store([1], [0])
    assert run(daemon, "reset", "--all", "--yes").exit_code == 0
    wait_for(lambda: engine.lookup([1]).count == 0, "the second reset")


def test_what_the_daemon_refuses_is_one_line_with_the_next_step(
    daemon: Kvstowd, engine: ClientEngine
) -> None:
    result = run(daemon, "why-miss", "--group", "7", "00" * KEY_BYTES)
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert re.fullmatch(r"kvstow: INVALID_REQUEST: .+\. [A-Z].+", line), line


@pytest.mark.parametrize(
    "words", [["status"], ["spaces", "--json"], ["reset", "--all", "--yes"], ["top"]]
)
def test_without_a_daemon_one_line_says_where_and_what_to_do(
    tmp_path: Path, words: list[str]
) -> None:
    result = CliRunner().invoke(app, [*words, "--target", f"unix:{tmp_path}/none"])
    assert result.exit_code == 3
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kvstow: no daemon listens at unix:{tmp_path}/none. Start kvstowd")
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["spaces", "doctor"])
def test_the_daemon_of_the_system_is_named_to_who_looks_elsewhere(
    daemon: Kvstowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    words = [command, "--target", f"unix:{tmp_path}/none"]
    environment = {"COLUMNS": "300"}
    assert "one listens at" not in CliRunner().invoke(app, words, env=environment).output
    monkeypatch.setattr("kvstow.cli.connection.SYSTEM_SOCKET", str(daemon.socket))
    assert (
        f"one listens at {daemon.target}" in CliRunner().invoke(app, words, env=environment).output
    )


@pytest.mark.parametrize("barred", ["kvstow.sock", "."])
def test_a_socket_that_only_another_user_may_use_is_said_to_be_theirs(
    daemon: Kvstowd, barred: str
) -> None:
    owner = daemon.socket.owner()
    place = daemon.socket.parent / barred
    mode = place.stat().st_mode
    daemon.socket.parent.chmod(0o755)
    place.chmod(0)
    try:
        with without_privileges():
            result = run(daemon, "status")
    finally:
        place.chmod(mode)
    assert result.exit_code == 3
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kvstow: {daemon.target} belongs to {owner}, and this user may not")


@pytest.mark.parametrize("words", [[], ["status"], ["reset"]])
def test_help_has_a_short_name(words: list[str]) -> None:
    long, short = (CliRunner().invoke(app, [*words, option]) for option in ("--help", "-h"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)


@pytest.mark.parametrize("command", ["status", "spaces", "sessions", "transfers"])
def test_a_file_of_what_is_printed_has_no_blanks_at_the_end_of_lines(
    daemon: Kvstowd, engine: ClientEngine, command: str
) -> None:
    lines = run(daemon, command).stdout.splitlines()
    assert lines == [line.rstrip() for line in lines]
    assert len(lines) > 1


def test_the_version_is_said() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"kvstow {version('kvstow')}\n")


COMMANDS = (
    "spaces",
    "sessions",
    "transfers",
    "reset",
    "status",
    "top",
    "doctor",
    "misses",
    "why-miss",
)
CONNECTION = {
    "--target": "KVSTOW_TARGET",
    "--ca-file": "KVSTOW_CA_FILE",
    "--cert-file": "KVSTOW_CERT_FILE",
    "--key-file": "KVSTOW_KEY_FILE",
    "--token-file": "KVSTOW_TOKEN_FILE",
}


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS)])
def test_every_help_says_how_a_daemon_is_chosen(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "160"}).stdout
    for option, variable in CONNECTION.items():
        assert re.search(rf"{option} .*{variable}", shown), option


def test_a_planner_asks_no_daemon() -> None:
    assert "--target" not in CliRunner().invoke(app, ["replay", "--help"]).stdout


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("behind", [False, True])
def test_a_daemon_is_chosen_before_or_behind_the_command(
    tmp_path: Path, command: str, behind: bool
) -> None:
    more = {"reset": ["--all", "--yes"], "why-miss": ["00"]}.get(command, [])
    chosen, words = ["--target", f"unix:{tmp_path}/chosen"], [command, *more]
    variables = {"KVSTOW_TARGET": f"unix:{tmp_path}/another"}
    line = [*words, *chosen] if behind else [*chosen, *words]
    result = CliRunner().invoke(app, line, env=variables)
    assert f"{tmp_path}/chosen" in result.output
    assert f"{tmp_path}/another" not in result.output


def test_what_stands_behind_the_command_counts_more(tmp_path: Path) -> None:
    words = ["--target", f"unix:{tmp_path}/a", "status", "--target", f"unix:{tmp_path}/b"]
    assert f"{tmp_path}/b" in CliRunner().invoke(app, words).stderr


def test_a_token_may_stand_behind_the_command(tmp_path: Path) -> None:
    words = ["status", "--target", f"unix:{tmp_path}/s", "--token-file", f"{tmp_path}/none"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert f"cannot read {tmp_path}/none" in result.stderr


def test_what_one_call_chose_the_next_one_does_not(tmp_path: Path) -> None:
    CliRunner().invoke(app, ["--target", f"unix:{tmp_path}/a", "status"])
    variables = {"KVSTOW_TARGET": f"unix:{tmp_path}/b"}
    assert f"{tmp_path}/b" in CliRunner().invoke(app, ["status"], env=variables).stderr


def test_help_breaks_lines_where_the_screen_ends_and_nowhere_else() -> None:
    shown = CliRunner().invoke(app, ["status", "--help"], env={"COLUMNS": "200"}).stdout
    assert "1 if it answers and does not" in shown


def test_help_says_what_yes_belongs_to() -> None:
    assert "With --all: do not ask" in CliRunner().invoke(app, ["reset", "--help"]).stdout


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--target", "nowhere"],
        ["reset"],
        ["reset", "--all", "--space", "1"],
        ["reset", "--all", "--yes", "--wait", "inf"],
        ["transfers", "--limit", str(2**32)],
        ["top", "--interval", "inf"],
    ],
)
def test_a_command_line_that_is_wrong_asks_no_daemon(words: list[str]) -> None:
    assert CliRunner().invoke(app, words).exit_code == 2
