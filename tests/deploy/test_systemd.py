"""The unit: what systemd itself says of it, and that it names nothing that the daemon does not have."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvstow.server.config import PREFIX, Config
from kvstow.server.process import CALL_GRACE_S, HEALTH_PERIOD_S, STREAM_GRACE_S

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "kvstowd.service"
CUDA = ROOT / "deploy" / "systemd" / "kvstowd.service.d" / "cuda.conf"
EXPOSURE = 15
"""What `systemd-analyze security` may find, in tenths of ten; an unhardened service has 96."""

with_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    """The settings of a daemon that a system manager starts."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return Config()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit, with the daemon of this environment."""
    path = tmp_path / UNIT.name
    daemon = Path(sys.executable).parent / "kvstowd"
    path.write_text(UNIT.read_text().replace("/opt/kvstow/bin/kvstowd", str(daemon)))
    return path


def assignments(path: Path) -> Iterator[tuple[str, str]]:
    """The settings of a unit."""
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name, value


def seconds(name: str) -> float:
    """A time that the unit sets."""
    return float(dict(assignments(UNIT))[name])


@with_systemd
def test_systemd_understands_every_line(installed: Path) -> None:
    verified = subprocess.run(
        ["systemd-analyze", "verify", installed], check=False, capture_output=True, text=True
    )
    assert (verified.returncode, verified.stderr) == (0, "")


@with_systemd
def test_the_unit_is_as_confined_as_the_daemon_bears(installed: Path) -> None:
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", installed],
        check=False,
        capture_output=True,
        text=True,
    )
    assert judged.returncode == 0, judged.stdout


def test_the_daemon_has_its_socket_where_the_unit_makes_a_directory(config: Config) -> None:
    made = dict(assignments(UNIT))
    assert config.socket.parent == Path("/run", made["RuntimeDirectory"])
    assert made["RuntimeDirectoryMode"] == "0700"
    assert made["UMask"] == "0077"


def test_the_manager_is_more_patient_than_the_daemon(config: Config) -> None:
    assert seconds("TimeoutStopSec") >= config.drain_grace_s + STREAM_GRACE_S + CALL_GRACE_S + 5
    assert seconds("WatchdogSec") >= 10 * HEALTH_PERIOD_S
    assert dict(assignments(UNIT))["WatchdogSignal"] == "SIGTERM"  # which drains


def test_the_metrics_are_let_out_as_far_as_they_are_served(config: Config) -> None:
    assert config.metrics_listen.startswith("127.0.0.1:")
    assert dict(assignments(UNIT))["IPAddressAllow"] == "localhost"


def test_every_setting_that_is_named_exists() -> None:
    named = set(re.findall(rf"\b{PREFIX}\w+", UNIT.read_text() + CUDA.read_text()))
    assert {f"{PREFIX}POOL_SIZE", f"{PREFIX}CUDA"} <= named
    assert {name.removeprefix(PREFIX).lower() for name in named} <= set(Config.model_fields)


def test_the_drop_in_for_gpus_changes_what_the_unit_sets() -> None:
    unit = dict(assignments(UNIT))
    for name, value in assignments(CUDA):
        if name != "Environment":
            assert unit[name] != value
