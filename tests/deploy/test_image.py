"""The image in containers; `make image-check` builds it and runs these tests."""

import re
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.containers import (
    CONFINED,
    IMAGE,
    STORE_AND_LOAD,
    docker,
    engine,
    exit_code,
    running,
    said,
    wait_ready,
)
from support.manifests import ROOT
from support.waiting import DEADLINE_S, wait_for

PAGE = ROOT / "docs" / "deploy" / "containers.md"
HOLD_A_STORE = """
import sys
import threading
import grpc
from kvstow.v1 import debug_pb2, debug_pb2_grpc
from kvstow.v1.transfer_pb2 import TRANSFER_KIND_STORE
from support.client_engine import connected_engine
socket = sys.argv[1]
stub = debug_pb2_grpc.DebugServiceStub(grpc.insecure_channel(socket))
fault = debug_pb2.Fault(kind=TRANSFER_KIND_STORE, hold=debug_pb2.HoldCopy())
stub.AddFault(debug_pb2.AddFaultRequest(fault=fault))
with connected_engine(socket) as engine:
    engine.begin_store([1, 2], [0, 1])
    print("held", flush=True)
    threading.Event().wait()
"""

pytestmark = pytest.mark.skipif(not IMAGE, reason="needs the image: make image-check")


@pytest.fixture
def volumes() -> Iterator[Sequence[str]]:
    """What daemon and engine share, gone afterwards."""
    name = f"kvstow-{uuid.uuid4().hex[:8]}"
    docker("volume", "create", name)
    yield (f"--volume={name}:/run/kvstow", "--volume=/dev/shm:/dev/shm")
    docker("volume", "rm", "--force", name)


@contextmanager
def daemon(volumes: Sequence[str], *settings: str) -> Iterator[str]:
    """A daemon that is ready."""
    flags = ("--pool-size=16MiB", "--log-format=json", *settings)
    with running(*CONFINED, *volumes, IMAGE, *flags) as name:
        wait_ready(name)
        yield name


def shell(commands: str) -> str:
    """Run commands of the page; return what they print."""
    done = subprocess.run(
        ["bash", "-euc", commands], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_of_the_page_work() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    build, run, look, join, stop = blocks
    assert build.startswith("docker build")  # done already, with another base
    try:
        shell(run)
        looked = shell(look)
        assert re.search(r"state +ready", looked)
        assert re.search(r"copy kernel +native", looked)
        assert "failures: 0" in looked
        assert shell(join) == "True stored\n2 blocks found\n"
        docker("healthcheck", "run", "kvstowd")
        shell(stop)
        assert exit_code("kvstowd") == 0
        assert "drained" in said("kvstowd")
    finally:
        docker("rm", "--force", "kvstowd", check=False)
        docker("volume", "rm", "--force", "kvstow-socket", check=False)


def test_the_process_has_no_right_it_does_not_need(volumes: Sequence[str]) -> None:
    with daemon(volumes) as name:
        pid = docker("inspect", "--format", "{{.State.Pid}}", name).stdout.strip()
        lines = Path("/proc", pid, "status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines)
        assert status["Uid"].split()[0] == "10001"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert status["Seccomp"] == "2"  # the engine's own profile
        assert not Path("/proc", pid, "task", pid, "children").read_text()


def test_an_engine_in_another_container_stores_and_loads(volumes: Sequence[str]) -> None:
    with daemon(volumes):
        docker("run", "--rm", *engine(STORE_AND_LOAD, *volumes))


def test_an_engine_stays_while_the_daemon_is_replaced(volumes: Sequence[str]) -> None:
    with daemon(volumes) as first:
        docker("run", "--rm", *engine(STORE_AND_LOAD, *volumes))
        docker("kill", first)
    with daemon(volumes):
        docker("run", "--rm", *engine(STORE_AND_LOAD, *volumes))


def test_nothing_is_written_to_the_image(volumes: Sequence[str]) -> None:
    with running(*volumes, IMAGE, "--pool-size=16MiB") as name:
        wait_ready(name)
        docker("exec", name, "kvstow", "status")
        docker("stop", name)
        changed = docker("diff", name).stdout.split()[1::2]
        # Where volumes are mounted, the engine itself makes directories.
        assert not [path for path in changed if not path.startswith(("/run", "/dev", "/etc"))]


def test_a_pool_beyond_the_memory_limit_is_one_line(volumes: Sequence[str]) -> None:
    arguments = ("--memory=128m", *CONFINED, *volumes, IMAGE, "--pool-size=256MiB")
    with running(*arguments) as name:
        assert exit_code(name) == 1
        (line,) = (line for line in said(name).splitlines() if line.startswith("kvstowd:"))
    assert "a host pool of 256.0 MiB does not fit" in line
    assert "raise the container's limit" in line


@pytest.mark.parametrize("grace_s", [0.5])
def test_sigterm_drains_within_the_grace_time(volumes: Sequence[str], grace_s: float) -> None:
    with (
        daemon(volumes, "--debug-service", f"--drain-grace-s={grace_s}") as name,
        running(*engine(HOLD_A_STORE, *volumes)) as held,
    ):
        wait_for(lambda: "held" in docker("logs", held).stdout, "a held store")
        docker("stop", "--time=60", name)
        assert (
            exit_code(name) == 0
        )  # and not 137, by which a patient engine would have lost patience
        assert "the grace time is over" in said(name)


def test_a_second_signal_ends_process_1_at_once(volumes: Sequence[str]) -> None:
    with (
        daemon(volumes, "--debug-service", "--drain-grace-s=3600") as name,
        running(*engine(HOLD_A_STORE, *volumes)) as held,
    ):
        wait_for(lambda: "held" in docker("logs", held).stdout, "a held store")
        docker("kill", "--signal=TERM", name)
        wait_for(lambda: "draining" in said(name), "the drain")
        docker("kill", "--signal=TERM", name)
        assert exit_code(name) == 143


def test_settings_are_tried_without_starting() -> None:
    tried = docker("run", "--rm", "--env=KVSTOW_POOL_SIZE=3GiB", IMAGE, "--check-config")
    assert 'pool_size = "3GiB"' in tried.stdout
    refused = docker("run", "--rm", "--env=KVSTOW_POOL_SIZE=3XB", IMAGE, check=False)
    assert refused.returncode == 2
    assert "pool_size" in refused.stderr
