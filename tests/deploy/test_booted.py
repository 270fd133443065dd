"""The unit under a systemd that was booted for it; `make image-check` runs these tests.

One system is booted for all of them. A script in it does what an administrator would, and each test reads what came of it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.kvstowd import WITH_A_BUG

BASE = os.environ.get("CHECK_BASE", "")
IMAGE = os.environ.get("CHECK_IMAGE", "")
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "deploy" / "systemd.md"
BOOT_S = 480
"""Longer than it takes on a busy machine."""

pytestmark = [
    pytest.mark.skipif(not BASE, reason="needs a base system: make image-check"),
    pytest.mark.timeout(BOOT_S + 60),
]

CHECK_UNIT = """
[Unit]
After=kvstowd.service
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
ExecStart=/check
[Install]
WantedBy=multi-user.target
"""

SCRIPT = r"""#!/bin/bash
exec >/out/log 2>&1; set -x
await() { for _ in $(seq 1200); do eval "$1" && return; sleep 0.1; done; echo "never came to this: $1"; }
show() { systemctl show kvstowd --property="$1" --value; }
as_kvstow() { setpriv --reuid=kvstow --regid=kvstow --clear-groups "$@"; }

# Started before this, because it comes after it: so it is ready.
systemctl show kvstowd >/out/started
as_kvstow kvstow status >/out/status
as_kvstow kvstow doctor >/out/doctor
as_kvstow env PYTHONPATH=/tests python -c '
from support.client_engine import connected_engine
with connected_engine("unix:/run/kvstow/kvstow.sock") as engine:
    engine.store([1, 2], [0, 1])
    engine.load([1, 2], [8, 9])
    print("stored and loaded")
' >/out/engine
ls -ld /run/kvstow /run/kvstow/kvstow.sock | cut -d" " -f1,3 >/out/directory
python -c 'import urllib.request as r; print(r.urlopen("http://127.0.0.1:9478/metrics").status)' >/out/metrics

# Killed, and back.
first=$(show MainPID); systemctl kill --signal=KILL kvstowd
await '[ "$(show MainPID)" != "$first" ] && [ "$(show ActiveState)" = active ]'
systemctl show kvstowd >/out/killed

# Hung: it says nothing, is told to stop, does not, and is replaced.
mkdir -p /run/systemd/system/kvstowd.service.d
printf '[Service]\nWatchdogSec=10\nTimeoutStopSec=10\n' >/run/systemd/system/kvstowd.service.d/short.conf
systemctl daemon-reload; systemctl restart kvstowd
second=$(show MainPID); systemctl kill --signal=STOP kvstowd
await '[ "$(show MainPID)" != "$second" ] && [ "$(show ActiveState)" = active ]'
systemctl show kvstowd >/out/hung

# It has found a bug in itself: it says nothing, is told to stop, drains, and is replaced.
printf '[Service]\nExecStart=\nExecStart=/opt/kvstow/bin/python /out/with_a_bug /run/kvstow/gate\n' \
    >/run/systemd/system/kvstowd.service.d/bug.conf
systemctl daemon-reload; systemctl restart kvstowd
third=$(show MainPID); touch /run/kvstow/gate
await '[ "$(show MainPID)" != "$third" ] && [ "$(show ActiveState)" = active ]'
systemctl show kvstowd >/out/bug
journalctl _PID=$third --no-pager --output=cat >/out/bug_journal

systemctl stop kvstowd
systemctl show kvstowd >/out/stopped
journalctl --unit=kvstowd --no-pager --output=cat >/out/journal
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the booted system has left what it found."""
    system = tmp_path_factory.mktemp("booted") / "system"
    out = system.parent / "out"
    out.mkdir()
    (out / "with_a_bug").write_text(WITH_A_BUG)
    # Of the image, what the unit expects to be installed.
    mounted = subprocess.check_output(["docker", "image", "mount", IMAGE], text=True).strip()
    try:
        subprocess.run(["cp", "--archive", BASE, system], check=True)
        prepare(system)
        log = boot(system, out, Path(mounted, "opt/kvstow"))
        assert (out / "stopped").exists(), f"{log}\n{(out / 'log').read_text()}"
        yield out
    finally:
        subprocess.run(["docker", "image", "unmount", IMAGE], check=True, capture_output=True)
        shutil.rmtree(system)


def prepare(system: Path) -> None:
    """Install the unit as the page says, with a small pool, and the script."""
    _, install = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert "64GiB" in install
    nspawn = ["systemd-nspawn", f"--directory={system}", "--quiet", "--register=no", "--keep-unit"]
    inside = [f"--bind-ro={ROOT}:/source", "--chdir=/source", "bash", "-euc"]
    commands = install.replace("64GiB", "64MiB")
    subprocess.run([*nspawn, *inside, commands], check=True, stdin=subprocess.DEVNULL)
    units = system / "etc" / "systemd" / "system"
    (units / "check.service").write_text(CHECK_UNIT)
    script = SCRIPT.replace("#!/bin/bash", "#!/bin/bash\nPATH=/opt/kvstow/bin:$PATH")
    (system / "check").write_text(script)
    (system / "check").chmod(0o755)
    subprocess.run(["systemctl", "--root", system, "enable", "check.service"], check=True)


def boot(system: Path, out: Path, installed: Path) -> str:
    """Boot it, wait until it has powered itself off, and return what it said."""
    binds = [
        f"--bind={out}:/out",
        f"--bind-ro={installed}:/opt/kvstow",
        f"--bind-ro={ROOT / 'tests' / 'support'}:/tests/support",
    ]
    alone = ["--quiet", "--register=no", "--keep-unit", "--private-network", "--boot"]
    booted = subprocess.run(
        ["systemd-nspawn", f"--directory={system}", *binds, *alone],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=BOOT_S,
    )
    return booted.stdout + booted.stderr


def properties(path: Path) -> Mapping[str, str]:
    """What `systemctl show` has printed."""
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)


def test_started_means_ready(found: Path) -> None:
    started = properties(found / "started")
    assert started["ActiveState"] == "active"
    assert started["StatusText"] == "ready"
    assert started["NRestarts"] == "0"
    assert "ready" in (found / "status").read_text()


def test_an_engine_of_the_same_user_stores_and_loads(found: Path) -> None:
    assert (found / "engine").read_text() == "stored and loaded\n"


def test_the_doctor_finds_nothing_that_fails(found: Path) -> None:
    assert "failures: 0" in (found / "doctor").read_text()


def test_the_copy_kernel_works_in_its_confinement(found: Path) -> None:
    assert "native" in (found / "status").read_text()


def test_the_socket_and_its_directory_are_the_users_alone(found: Path) -> None:
    lines = (found / "directory").read_text().splitlines()
    assert lines == ["drwx------ kvstow", "srw------- kvstow"]


def test_the_metrics_are_served_on_this_machine(found: Path) -> None:
    assert (found / "metrics").read_text() == "200\n"


def test_a_daemon_that_was_killed_is_back(found: Path) -> None:
    assert properties(found / "killed")["NRestarts"] == "1"


def test_a_daemon_that_hangs_is_replaced(found: Path) -> None:
    assert int(properties(found / "hung")["NRestarts"]) >= 1
    assert properties(found / "hung")["ActiveState"] == "active"


def test_a_daemon_that_has_found_a_bug_drains_and_is_replaced(found: Path) -> None:
    assert properties(found / "bug")["NRestarts"] == "1"
    assert "drained: every copy has ended" in (found / "bug_journal").read_text()


def test_stopping_it_drains(found: Path) -> None:
    stopped = properties(found / "stopped")
    assert stopped["ActiveState"] == "inactive"
    assert stopped["Result"] == "success"
    assert stopped["ExecMainStatus"] == "0"
    assert "drained: every copy has ended" in (found / "journal").read_text()
