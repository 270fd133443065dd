"""Engines that are killed in the middle of a copy."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.copies import runs
from kvstow.client import Client
from support.client_engine import PATIENT, connected_engine
from support.kvstowd import Kvstowd, environment
from support.waiting import wait_for

TESTS = Path(__file__).parent.parent


@contextmanager
def engine_process(target: str) -> Iterator[subprocess.Popen[str]]:
    """An engine of its own that has offered two blocks."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.client_engine", target],
        stdout=subprocess.PIPE,
        text=True,
        env={**environment(), "PYTHONPATH": str(TESTS)},
    )
    assert process.stdout is not None
    with process.stdout as stream:
        try:
            assert stream.readline() == "AA\n"
            yield process
        finally:
            process.kill()
            process.wait()


def mapped_files(daemon: Kvstowd) -> set[str]:
    """Engine memory that the daemon maps."""
    lines = Path(f"/proc/{daemon.process.pid}/maps").read_text(encoding="utf-8").splitlines()
    return {line.split()[5] for line in lines if "/kvstow-memory-" in line}


def test_the_slots_and_the_memory_of_a_killed_engine_stay_until_its_copy_has_ended(
    daemon: Kvstowd,
) -> None:
    with Client(daemon.target, PATIENT) as client:
        administration = client.administration
        with daemon.held_stores(), engine_process(daemon.target) as engine:
            wait_for(lambda: runs(client), "the held store")
            assert len(mapped_files(daemon)) == 1
            engine.kill()
            # At once, long before the grace time of its stream.
            wait_for(lambda: not administration.sessions(), "the end of the session")
            administration.check_ledger()
            (transfer,) = administration.transfers().transfers
            assert transfer.abandoned
            assert administration.stats().slots[0].quarantined_count == 2
            assert len(mapped_files(daemon)) == 1
        wait_for(lambda: not administration.transfers().total_count, "the end of the copy")
        wait_for(lambda: not mapped_files(daemon), "the end of the mapping")
        administration.check_ledger()
        assert administration.stats().slots[0].quarantined_count == 0
        assert administration.spaces()[0].ready_count == 0


def test_what_an_engine_had_stored_outlives_it(daemon: Kvstowd) -> None:
    with Client(daemon.target, PATIENT) as client, engine_process(daemon.target) as engine:
        wait_for(lambda: client.administration.spaces()[0].ready_count == 2, "the stored blocks")
        engine.kill()
        with connected_engine(daemon.target) as heir:
            heir.load([1, 2], [3, 4])
        client.administration.check_ledger()
