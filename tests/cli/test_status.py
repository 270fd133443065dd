"""`kvstow status`: who the daemon is, whether it takes work, and with which settings."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import Result

from cli.running import ask, invoke, run
from kvstow.server.core.requests import ServerInfo
from rpc.rig import Served, served
from security.rig import ENGINE_A, ENTRIES, write
from support.client_engine import BLOCK_BYTES, ClientEngine
from support.kvstowd import Kvstowd, running_kvstowd


@pytest.fixture
def starting() -> Iterator[Served]:
    """A daemon that still prepares its pool."""
    with served(ready=False) as daemon:
        yield daemon


def status(target: str, *words: str) -> Result:
    return invoke(["status", "--target", target, *words])


def test_status(daemon: Kvstowd, engine: ClientEngine) -> None:
    found = ask(daemon, "status")
    assert (found["state"], found["pool_bytes"]) == ("ready", 1 << 20)
    (slots,) = found["slots"]
    assert (slots["slot_bytes"], slots["held_count"]) == (BLOCK_BYTES, 3)
    assert found["role"] == "administrator"
    assert found["boot_id"] in run(daemon, "status").stdout


def test_the_settings_in_force_are_shown_with_where_they_come_from(daemon: Kvstowd) -> None:
    settings = ask(daemon, "status")["settings"]
    assert settings["socket"] == {"value": str(daemon.socket), "source": "flag"}
    assert settings["policy"] == {"value": "lru", "source": "default"}
    shown = run(daemon, "status").stdout
    assert f"{len(settings) - 5} more have their defaults" in shown
    assert "max_leases" not in shown
    assert "max_leases" in run(daemon, "status", "--settings").stdout


def test_status_answers_before_the_daemon_is_ready(starting: Served) -> None:
    result = status(f"unix:{starting.socket}")
    assert result.exit_code == 0
    assert "starting" in result.stdout


@pytest.mark.parametrize("wait", ["0", "0.3"])
def test_a_daemon_that_is_not_ready_in_time_is_an_exit_code(starting: Served, wait: str) -> None:
    result = status(f"unix:{starting.socket}", "--wait", wait)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith("is starting. See its log.")


def test_a_daemon_that_becomes_ready_ends_the_waiting(
    starting: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()
    info = starting.daemon.info

    def ask_for_info() -> ServerInfo:
        asked.set()
        return info()

    monkeypatch.setattr(starting.daemon, "info", ask_for_info)

    def become_ready() -> None:
        assert asked.wait(60)
        starting.daemon.set_ready()

    ready = threading.Thread(target=become_ready)
    ready.start()
    result = status(f"unix:{starting.socket}", "--wait", "60")
    ready.join()
    assert result.exit_code == 0, result.output
    assert "ready" in result.stdout


@pytest.mark.parametrize("wait", ["0", "0.3"])
def test_no_daemon_is_another_exit_code(tmp_path: Path, wait: str) -> None:
    result = status(f"unix:{tmp_path}/none", "--wait", wait)
    assert result.exit_code == 3
    (line,) = result.stderr.splitlines()
    assert "no daemon listens" in line
    assert ("after 0.3 s" in line) == (wait == "0.3")


def test_a_daemon_that_comes_late_is_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Kvstowd] = []

    def pause(seconds: float) -> None:
        """Nothing is there when the daemon is asked for the first time."""
        if not late:
            late.append(Kvstowd(directory))
        time.sleep(seconds)

    watched = SimpleNamespace(monotonic=time.monotonic, sleep=pause)
    monkeypatch.setattr("kvstow.cli.status.time", watched)
    try:
        result = status(f"unix:{directory}/kvstow.sock", "--wait", "300", "--json")
        assert result.exit_code == 0, result.output
    finally:
        late[0].kill()


@pytest.mark.parametrize("wait", ["-1", "inf", "nan", "soon"])
def test_a_wait_that_is_no_time_is_refused(wait: str) -> None:
    assert status("unix:/nowhere", "--wait", wait).exit_code == 2


def test_an_engine_sees_what_its_token_allows(directory: Path) -> None:
    tokens, mine = directory / "tokens", directory / "token"
    write(tokens, ENTRIES)
    mine.write_text(ENGINE_A)
    with running_kvstowd(directory, tokens=tokens) as daemon:
        shown = ["--token-file", str(mine), "status", "--target", daemon.target, "--wait", "0"]
        result = invoke(shown)
        assert result.exit_code == 0, result.output
        assert "not shown to an engine's token" in result.stdout
        found = json.loads(invoke([*shown, "--json"]).stdout)
        daemon.terminate()
        daemon.wait_exit()
    assert (found["state"], found["slots"], found["settings"]) == ("ready", None, None)
    assert found["role"] == "engine"
    assert "a caller is refused" not in [line["event"] for line in daemon.lines]
