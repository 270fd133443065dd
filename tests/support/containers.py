"""Containers of the image that `make image-check` has built."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from .manifests import ROOT
from .waiting import DEADLINE_S, wait_for

IMAGE = os.environ.get("CHECK_IMAGE", "")
CONFINED = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
STORE_AND_LOAD = """
import sys
from support.client_engine import connected_engine
with connected_engine(sys.argv[1]) as engine:
    engine.store([1, 2], [0, 1])
    engine.load([1, 2], [8, 9])
print("stored and loaded")
"""
TARGET = "unix:/run/kvstow/kvstow.sock"


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command of the container engine."""
    done = subprocess.run(
        ["docker", *arguments], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0 or not check, done.stderr
    return done


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """A container that is gone afterwards."""
    name = docker("run", "--detach", *arguments).stdout.strip()
    try:
        yield name
    finally:
        docker("rm", "--force", name)


def said(name: str) -> str:
    """The log of a container."""
    return docker("logs", name).stderr


def exit_code(name: str) -> int:
    """Wait until a container has ended."""
    return int(docker("wait", name).stdout)


def wait_ready(name: str) -> None:
    """Wait until the daemon in a container takes work."""
    wait_for(lambda: "ready" in docker("exec", name, "kvstow", "status", check=False).stdout, name)


def engine(program: str, *arguments: str, target: str = TARGET) -> tuple[str, ...]:
    """The arguments of a container that runs a program, with what the tests of engines share."""
    tests = f"--volume={ROOT / 'tests' / 'support'}:/tests/support:ro"
    shared = (tests, "--env=PYTHONPATH=/tests", "--entrypoint=python")
    return (*arguments, *shared, IMAGE, "-c", program, target)
