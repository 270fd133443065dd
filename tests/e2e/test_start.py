"""How the daemon starts, and what it says when it cannot."""

import subprocess
from pathlib import Path

import pytest

from support.client_engine import connected_engine
from support.kvstowd import COMMAND, SMALL, Kvstowd, environment, flags, running_kvstowd
from support.waiting import LONGEST_S, wait_for


def refused(directory: Path, **settings: object) -> tuple[int, str]:
    """Start a daemon that cannot start; returns its exit code and what it said."""
    ended = subprocess.run(
        [*COMMAND, *flags({"socket": directory / "kvstow.sock", **SMALL, **settings})],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=LONGEST_S,
        check=False,
    )
    return ended.returncode, ended.stderr


def test_readiness_follows_the_pool_and_liveness_does_not(daemon: Kvstowd) -> None:
    events = [line["event"] for line in daemon.lines]
    assert events.index("listening") < events.index("preparing the host pool")
    assert events.index("preparing the host pool") < events.index("ready")
    assert all(daemon.serving(service) for service in ("", "liveness", "device"))
    (line,) = [line for line in daemon.lines if line["event"] == "ready"]
    assert (line["pool"], line["extents"], line["extent"]) == ("1.0MiB", 8, "128.0KiB")


def test_the_socket_is_its_owners_alone(daemon: Kvstowd) -> None:
    assert daemon.socket.stat().st_mode & 0o777 == 0o600


def test_log_lines_are_for_people_by_default(directory: Path) -> None:
    daemon = Kvstowd(directory, log_format="text")
    try:
        wait_for(daemon.serving, "readiness")
        with connected_engine(daemon.target) as engine:
            engine.store([1], [0])
    finally:
        daemon.terminate()
        assert daemon.wait_exit() == 0
    text = "".join(daemon.output)
    assert "space opened" in text
    assert "blocks_if_alone=(1024,)" in text
    assert "{" not in text
    assert "Traceback" not in text


def test_a_misspelt_variable_is_a_warning(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_settings = environment()
    monkeypatch.setattr(
        "support.kvstowd.environment", lambda: {**without_settings, "KVSTOW_POOLSIZE": "2MiB"}
    )
    with running_kvstowd(directory) as daemon:
        line = daemon.wait_line("no setting has this name")
    assert line["level"] == "warning"
    assert (line["variable"], line["nearest"]) == ("KVSTOW_POOLSIZE", "KVSTOW_POOL_SIZE")


def test_wrong_settings_are_all_named_and_nothing_else_is_said(directory: Path) -> None:
    code, said = refused(directory, pool_size="much", policy="random")
    assert code == 2
    heading, *lines = said.splitlines()
    assert heading == "kvstowd: the settings are wrong"
    assert sorted(line.partition(":")[0] for line in lines) == ["policy", "pool_size"]


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"pool_size": "64TiB"}, "does not fit"),
        ({"pool_path": "/nowhere"}, "cannot take a host pool of 1.0 MiB from /nowhere"),
        ({"metrics_listen": "192.0.2.1:9478"}, "cannot serve metrics on 192.0.2.1:9478"),
        (
            {"health_listen": "192.0.2.1:9479"},
            "cannot serve health on 192.0.2.1:9479: Cannot assign requested address; set health_listen",
        ),
        ({"socket": "/proc/nowhere/kvstow.sock"}, "cannot serve /proc/nowhere/kvstow.sock"),
    ],
)
def test_what_prevents_the_start_is_one_line(
    directory: Path, settings: dict[str, object], complaint: str
) -> None:
    code, said = refused(directory, log_level="error", **settings)
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith("kvstowd: ")
    assert complaint in line


@pytest.mark.parametrize("pool_size", ["1MiB", "64TiB"])
def test_the_second_daemon_on_a_socket_says_who_serves_it(daemon: Kvstowd, pool_size: str) -> None:
    """Also if the first one has taken the memory."""
    code, said = refused(daemon.socket.parent, log_level="error", pool_size=pool_size)
    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith(f"kvstowd: {daemon.socket} is served by process {daemon.process.pid};")
    assert daemon.serving()


def test_a_port_is_opened_only_when_asked_for(directory: Path) -> None:
    with running_kvstowd(directory, listen="127.0.0.1:0", insecure=True) as daemon:
        assert daemon.wait_line("listening")["tcp"] is not None
    with running_kvstowd(directory) as daemon:
        assert daemon.wait_line("listening")["tcp"] is None
