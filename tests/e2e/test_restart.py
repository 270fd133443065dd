"""A daemon that was killed leaves nothing that stands in the way of the next one."""

from contextlib import ExitStack
from pathlib import Path

from e2e.copies import runs
from kvstow.client import Client, TransferState
from support.client_engine import PATIENT, connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.memory import shared_directory
from support.waiting import wait_for


def test_killed_five_times_and_started_again_in_the_same_directory(directory: Path) -> None:
    boot_ids = set()
    with shared_directory() as pool:
        for _ in range(5):
            daemon = Kvstowd(directory, pool_path=pool)
            try:
                daemon.wait_ready()
                with Client(daemon.target, PATIENT) as client:
                    boot_ids.add(client.server_info().boot_id)
                assert not list(pool.iterdir())  # the pool has no name that could stay
            finally:
                daemon.kill()
        with (
            running_kvstowd(directory, pool_path=pool) as daemon,
            connected_engine(daemon.target) as engine,
        ):
            engine.store([1, 2], [0, 1])
    assert len(boot_ids) == 5


def test_an_engine_comes_back_by_itself_and_finds_the_new_daemon_empty(directory: Path) -> None:
    with running_kvstowd(directory) as daemon, connected_engine(daemon.target) as engine:
        engine.store([1, 2], [0, 1])
        first = engine.session.ticket
        daemon.kill()
        assert engine.lookup([1, 2]).groups[0].hit_count == 0  # away is a miss, not an error

        with running_kvstowd(directory):
            wait_for(lambda: engine.session.ticket not in (None, first), "the new session")
            engine.wait_open()
            assert first is not None
            assert engine.session.ticket is not None
            assert engine.session.ticket.boot_id != first.boot_id
            assert engine.lookup([1, 2]).groups[0].hit_count == 0
            engine.store([1, 2], [0, 1])
            engine.load([1, 2], [2, 3])


def test_one_engine_outlives_five_daemons(directory: Path) -> None:
    """Each of them is killed in the middle of a copy, and its successor starts where it was."""
    boot_ids = set()
    with shared_directory() as pool, ExitStack() as daemons:
        settings = {"pool_path": pool, "debug_service": True}
        daemon = daemons.enter_context(running_kvstowd(directory, **settings))
        with connected_engine(daemon.target) as engine:
            for _ in range(5):
                engine.wait_open()
                assert engine.session.ticket is not None
                boot_ids.add(engine.session.ticket.boot_id)
                assert engine.lookup([1, 2]).count == 0
                engine.store([1, 2], [0, 1])
                engine.load([1, 2], [2, 3])
                with daemon.held_stores(), Client(daemon.target, PATIENT) as client:
                    held = engine.begin_store([3], [4])
                    wait_for(lambda: runs(client), "the held copy")
                    client.administration.check_ledger()
                    daemon.kill()
                assert held.wait(60)
                assert held.state is TransferState.LOST
                assert engine.lookup([1, 2]).missed_because == "away"
                assert not list(pool.iterdir())
                daemon = daemons.enter_context(running_kvstowd(directory, **settings))
            engine.wait_open()
            engine.store([1, 2], [0, 1])
    assert len(boot_ids) == 5
