"""The death of an engine's process ends its session at once; other processes are left alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvstow.server.core.requests import StreamEnd
from kvstow.server.core.types import Hold, SessionEnd
from kvstow.server.daemon.processes import is_ending
from support.daemons import Rig
from support.engine import Engine, keys
from support.processes import named
from support.waiting import wait_for


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield process
    process.kill()
    process.wait()


def test_a_death_ends_the_session_and_frees_what_it_held(
    rig: Rig, child: subprocess.Popen[bytes]
) -> None:
    engine = Engine(rig.daemon, rig.place, process=named(child.pid))
    engine.store(keys(3, 4), [2, 3])
    engine.lookup(keys(3, 4), hold=Hold.PREFIX)
    let_go = rig.hold(count=1)
    held = engine.begin_store(keys(1, 2), [0, 1])
    rig.wait_held(1)
    child.kill()
    wait_for(lambda: not rig.daemon.snapshot().sessions, "the end of the session")
    rig.daemon.check()
    assert rig.daemon.snapshot().leases == ()
    (table,) = rig.daemon.snapshot().tables
    assert (table.held, table.evictable, table.quarantined) == (0, 2, 2)
    assert engine.stream.next(0) is None
    assert engine.stream.end is StreamEnd.LOST
    assert rig.daemon.snapshot().counters.session_ends[SessionEnd.PROCESS_DIED.value] == 1
    assert [transfer.abandoned for transfer in rig.daemon.snapshot().transfers] == [True]
    let_go()
    rig.landed(held.transfer)


def test_the_death_of_one_ranks_process_ends_the_session(
    rig: Rig, child: subprocess.Popen[bytes]
) -> None:
    engine = Engine(rig.daemon, rig.place, attach=False)
    rig.daemon.attach(engine.session, 0, engine.ranks[0].memory, named(child.pid))
    child.kill()
    wait_for(lambda: not rig.daemon.snapshot().sessions, "the end of the session")


@pytest.mark.parametrize("field", ["pid_namespace", "start_time_ticks"])
def test_a_process_that_may_be_another_one_is_not_watched(
    rig: Rig, child: subprocess.Popen[bytes], field: str
) -> None:
    stranger = replace(named(child.pid), **{field: 1})
    engine = Engine(rig.daemon, rig.place, process=stranger)
    watched = Engine(rig.daemon, rig.place, process=named(child.pid))
    child.kill()
    wait_for(lambda: watched.stream.end is StreamEnd.LOST, "the end of the watched session")
    assert engine.stream.end is None
    engine.store(keys(1), [0])


def test_a_process_is_found_to_be_ending_before_any_of_its_files_is_closed() -> None:
    for _ in range(20):
        ours, theirs = os.pipe()
        with subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(3600)"], pass_fds=[theirs]
        ) as process:
            os.close(theirs)
            name = named(process.pid)
            assert not is_ending(name)
            process.kill()
            assert os.read(ours, 1) == b"", "the other end is open"
            assert is_ending(name)
            os.close(ours)
        assert is_ending(name)


def pidfd_count() -> int:
    """Processes that this process has descriptors of."""
    return sum(is_pidfd(link) for link in Path("/proc/self/fd").iterdir())


def is_pidfd(link: Path) -> bool:
    try:
        return os.readlink(link) == "anon_inode:[pidfd]"
    except FileNotFoundError:  # closed since it was listed
        return False


def test_no_descriptor_is_left_after_many_sessions(
    rig: Rig, child: subprocess.Popen[bytes]
) -> None:
    before = pidfd_count()
    for _ in range(20):
        engine = Engine(rig.daemon, rig.place, process=named(child.pid))
        assert pidfd_count() > before
        engine.close()
    wait_for(lambda: pidfd_count() == before, "no pidfd left")


def test_a_detached_ranks_process_is_watched_no_longer(
    rig: Rig, child: subprocess.Popen[bytes]
) -> None:
    engine = Engine(rig.daemon, rig.place, attach=False)
    watched = Engine(rig.daemon, rig.place, process=named(child.pid))
    before = pidfd_count()
    for _ in range(20):
        rig.daemon.attach(engine.session, 0, engine.ranks[0].memory, named(child.pid))
        rig.daemon.detach(engine.session, 0, 60.0)
    wait_for(lambda: pidfd_count() == before, "no pidfd left")
    engine.attach(0)
    child.kill()
    wait_for(lambda: watched.stream.end is StreamEnd.LOST, "the end of the watched session")
    assert engine.stream.end is None
    engine.store(keys(1), [0])
