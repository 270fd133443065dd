"""`kvstow doctor` against real daemons, of which something is really wrong."""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.running import invoke
from client.faults import stopped
from kvstow.cli.app import app
from rpc.rig import served
from support.client_engine import connected_engine
from support.kvstowd import Kvstowd, environment, placed_kvstowd, running_kvstowd
from support.users import without_privileges
from support.waiting import DEADLINE_S, wait_for

NAMES = [
    "socket", "daemon", "transfers", "process", "pid-namespace", "ipc-namespace", "shared-mount",
    "shared-memory", "memory", "pool", "huge-pages", "numa", "memlock", "gpus", "open-files",
    "versions", "libraries", "clock",
]  # fmt: skip
MAY_LACK = {"gpus", "huge-pages", "numa", "shared-mount"}
"""Checks of what not every machine has."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another group")


def can_unshare() -> bool:
    """Whether namespaces can be made here."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*unshared("--ipc", "--mount", "--pid", "--fork"), "true"], check=False)
    return tried.returncode == 0


def unshared(*kinds: str) -> Sequence[str]:
    return ("unshare", *kinds, "--")


in_namespaces = pytest.mark.skipif(
    not can_unshare(), reason="namespaces take unshare and the capability SYS_ADMIN"
)


@pytest.fixture(scope="module")
def well() -> Iterator[Kvstowd]:
    """A daemon that is well again after each test."""
    with placed_kvstowd() as running:
        yield running


def examine(target: str, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code, and the findings by the names of their checks."""
    return reported(invoke(["doctor", "--target", target, "--json", *words]), target)


def reported(result: Result, target: str) -> tuple[int, dict[str, dict[str, str]]]:
    report = json.loads(result.stdout)
    assert report["target"] == target
    return result.exit_code, by_name(report)


def examine_from(daemon: Kvstowd, *command: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The same from another place; `command` runs its arguments there."""
    doctor = [sys.executable, "-m", "kvstow.cli", "doctor", "--target", daemon.target, "--json"]
    ended = subprocess.run(
        [*command, *doctor],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=3 * DEADLINE_S,
        check=False,
    )
    return ended.returncode, by_name(json.loads(ended.stdout))


def by_name(report: Any) -> dict[str, dict[str, str]]:
    findings = {finding["check"]: finding for finding in report["checks"]}
    levels = [finding["level"] for finding in findings.values()]
    assert len(findings) == len(report["checks"])
    assert report["failures"] == levels.count("failure")
    assert report["warnings"] == levels.count("warning")
    for finding in findings.values():
        assert set(finding) == {"check", "level", "found", "advice"}
        assert finding["found"]
        assert "\n" not in finding["found"] + finding["advice"]
        assert bool(finding["advice"]) == (finding["level"] != "ok")
    return findings


def failures(findings: dict[str, dict[str, str]]) -> list[str]:
    return [name for name, finding in findings.items() if finding["level"] == "failure"]


def test_a_daemon_that_is_well_has_no_failure(well: Kvstowd) -> None:
    code, findings = examine(well.target)
    assert (code, failures(findings)) == (0, [])
    assert [name for name in NAMES if name in findings] == list(findings)
    assert set(NAMES) - set(findings) <= MAY_LACK
    pid = well.process.pid
    assert f"process {pid} listens" in findings["socket"]["found"]
    assert "ready with a pool of 1.0 MiB" in findings["daemon"]["found"]
    assert "1.0 MiB in /memfd:kvstow-pool" in findings["pool"]["found"]
    assert findings["clock"]["level"] == "ok"


def test_people_get_a_line_for_each_finding_and_one_for_what_to_do(directory: Path) -> None:
    left = directory / "kvstow.sock"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(left))
    result = CliRunner().invoke(app, ["doctor", "--target", f"unix:{left}"])
    assert result.exit_code == 1
    first, second, *_, last = result.stdout.splitlines()
    assert first == f"failure  socket           nobody listens on {left}"
    assert second.strip().startswith("to do: start kvstowd")
    assert last.startswith("failures: 1, warnings: ")


def test_there_is_no_socket(directory: Path) -> None:
    code, findings = examine(f"unix:{directory}/kvstow.sock")
    assert (code, failures(findings)) == (1, ["socket"])
    assert findings["socket"]["found"] == f"there is no {directory}/kvstow.sock"
    assert not {"daemon", "process", "memory"} & set(findings)


def test_the_file_is_no_socket(directory: Path) -> None:
    (directory / "file").touch()
    _, findings = examine(f"unix:{directory}/file")
    assert findings["socket"]["found"] == f"{directory}/file is no socket"


@pytest.mark.parametrize(("barred", "passes"), [("kvstow.sock", "0000"), (".", "0000")])
def test_another_user_may_not_connect(well: Kvstowd, barred: str, passes: str) -> None:
    owner, directory = f"{well.socket.owner()}:{well.socket.group()}", well.socket.parent
    place = directory / barred
    mode = place.stat().st_mode
    directory.chmod(0o755)
    place.chmod(0)
    try:
        with without_privileges():
            code, findings = examine(well.target)
    finally:
        place.chmod(mode)
    assert (code, failures(findings)) == (1, ["socket"])
    assert f"{place} belongs to {owner}, mode {passes}; you are" in findings["socket"]["found"]
    assert findings["socket"]["advice"].endswith(f"as {well.socket.owner()}")


def test_anybody_may_replace_the_socket(well: Kvstowd) -> None:
    directory = well.socket.parent
    mode = directory.stat().st_mode
    directory.chmod(0o777)
    code, findings = examine(well.target)
    directory.chmod(mode)
    assert (code, findings["socket"]["level"]) == (0, "warning")
    assert str(directory) in findings["socket"]["advice"]


def test_the_daemon_is_stopped(well: Kvstowd) -> None:
    with stopped(well.process):
        impatient = CliRunner().invoke(app, ["doctor", "--target", well.target, "--json"])
    code, findings = reported(impatient, well.target)
    assert (code, failures(findings)) == (1, ["daemon"])
    assert "it does not answer" in findings["daemon"]["found"]
    assert f"process {well.process.pid}" in findings["process"]["found"]


@as_root
def test_a_group_may_connect_and_others_are_told_so(own: Kvstowd) -> None:
    own.socket.parent.chmod(0o755)
    own.socket.chmod(0o660)
    os.chown(own.socket, -1, 12345)
    with without_privileges():
        _, findings = examine(own.target)
    assert findings["socket"]["level"] == "failure"
    assert "a user of the group 12345" in findings["socket"]["advice"]


def test_the_daemon_asks_for_a_token(directory: Path) -> None:
    tokens = directory / "tokens"
    tokens.write_text(f'[[token]]\nname = "a"\nrole = "read-only"\nsha256 = "{"0" * 64}"\n')
    tokens.chmod(0o600)
    with running_kvstowd(directory, tokens=tokens) as daemon:
        code, findings = examine(daemon.target)
    assert (code, failures(findings)) == (1, ["daemon"])
    assert "it refuses: UNAUTHENTICATED" in findings["daemon"]["found"]
    assert "token" in findings["daemon"]["advice"]


def test_the_daemon_is_not_ready() -> None:
    with served(ready=False) as starting:
        code, findings = examine(f"unix:{starting.socket}")
        assert (code, failures(findings)) == (1, ["daemon"])
        assert "still prepares a pool of 64.0 KiB" in findings["daemon"]["found"]
        assert "--wait" in findings["daemon"]["advice"]


def test_the_daemon_is_shutting_down() -> None:
    with served() as ending:
        ending.daemon.drain(0)
        _, findings = examine(f"unix:{ending.socket}")
        assert "shutting down" in findings["daemon"]["found"]


def test_a_transfer_is_past_its_deadline(directory: Path) -> None:
    with (
        running_kvstowd(directory, debug_service=True, max_deadline_s=0.01) as daemon,
        connected_engine(daemon.target) as engine,
        daemon.held_stores(),
    ):
        engine.begin_store([1], [0])
        wait_for(lambda: failures(examine(daemon.target)[1]) == ["transfers"], "the deadline")
        _, findings = examine(daemon.target)
        assert "1 are past their deadline" in findings["transfers"]["found"]


def test_the_daemon_runs_out_of_files(own: Kvstowd) -> None:
    limit = len(os.listdir(f"/proc/{own.process.pid}/fd")) - 4  # connections that end count, too
    resource.prlimit(own.process.pid, resource.RLIMIT_NOFILE, (limit, limit))
    code, findings = examine(own.target)
    assert (code, findings["open-files"]["level"]) == (1, "failure")
    assert f" of {limit} are in use" in findings["open-files"]["found"]


@pytest.mark.parametrize(("wanted", "code"), [("1MiB", 0), ("1Mi", 0), ("1024 TiB", 1)])
def test_whether_a_pool_would_fit_is_said_before_the_start(
    directory: Path, wanted: str, code: int
) -> None:
    found, findings = examine(f"unix:{directory}/kvstow.sock", "--pool-size", wanted)
    assert (found, failures(findings)) == (code, ["memory"] * code)
    assert "yet" in findings["socket"]["found"]


@pytest.mark.parametrize("wanted", ["much", "0", "-1GiB", "1g", "nan"])
def test_what_is_no_size_is_refused(wanted: str) -> None:
    refused = CliRunner().invoke(app, ["doctor", f"--pool-size={wanted}"])
    assert refused.exit_code == 2
    assert "Value error" not in refused.output


@in_namespaces
def test_this_side_has_another_ipc_namespace(well: Kvstowd) -> None:
    code, findings = examine_from(well, *unshared("--ipc"))
    assert (code, findings["ipc-namespace"]["level"]) == (0, "warning")


@in_namespaces
def test_this_side_does_not_see_the_daemons_process(well: Kvstowd) -> None:
    code, findings = examine_from(well, *unshared("--pid", "--fork", "--mount-proc"))
    assert (code, findings["process"]["level"]) == (0, "warning")
    assert findings["pid-namespace"]["level"] == "warning"
    assert not {"memory", "pool", "memlock", "open-files", "shared-mount"} & set(findings)


@in_namespaces
def test_this_side_has_another_shared_memory(well: Kvstowd) -> None:
    hide = 'mount -t tmpfs -o size=32M none /dev/shm && exec "$@"'
    code, findings = examine_from(well, *unshared("--mount"), "sh", "-c", hide, "sh")
    assert (code, failures(findings)) == (1, ["shared-mount"])
    assert findings["shared-memory"]["level"] == "warning"
