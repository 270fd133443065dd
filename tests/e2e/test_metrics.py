"""What Prometheus and the health service see of a daemon at work."""

from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest

from support.client_engine import BLOCK_BYTES, connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import DEADLINE_S, wait_for


def test_an_idle_daemon_shows_what_can_be_alerted_on(daemon: Kvstowd) -> None:
    found = daemon.metrics()
    assert found["kvstow_ready"] == 1
    assert found["kvstow_internal_errors_total"] == 0
    assert found["kvstow_stuck_transfers"] == 0
    assert found["kvstow_oldest_transfer_age_seconds"] == 0
    assert found["kvstow_pool_bytes unassigned"] == 1 << 20
    assert found["kvstow_copy_duration_seconds_count store"] == 0
    assert found["kvstow_transfers_in_flight load running"] == 0
    assert found["process_resident_memory_bytes"] > 1 << 20
    assert [name.split()[0] for name in found if "_info" in name][-1] == "kvstow_build_info"


def test_what_happens_to_blocks_is_counted(daemon: Kvstowd) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2, 3], [0, 1, 2])
        engine.begin_store([3, 4], [2, 3]).wait(60)
        engine.load([1, 2], [8, 9])
        engine.lookup([1, 2, 3, 9])
        found = daemon.metrics()
    assert found["kvstow_blocks model ready "] == 4
    assert found["kvstow_lookup_blocks_total model hit "] == 5
    assert found["kvstow_lookup_blocks_total model miss "] == 1
    assert found["kvstow_offered_blocks_total model accepted "] == 4
    assert found["kvstow_offered_blocks_total model already_stored "] == 1
    assert found["kvstow_stored_blocks_total model "] == 4
    assert found["kvstow_loaded_blocks_total model "] == 2
    assert found["kvstow_transfers_total store done"] == 2
    assert found["kvstow_transfers_total load done"] == 1
    assert found["kvstow_copy_bytes_sum store"] == 4 * BLOCK_BYTES
    assert found["kvstow_copy_bytes_sum load"] == 2 * BLOCK_BYTES
    assert found["kvstow_copy_duration_seconds_count load"] == 1
    assert found["kvstow_pool_bytes held"] == 3 * BLOCK_BYTES  # by the lease of the last lookup
    assert found["kvstow_pool_bytes ready"] == BLOCK_BYTES
    assert found["kvstow_leases"] == 1
    assert found["kvstow_leased_blocks"] == 3
    assert found["kvstow_sessions open"] == 1
    assert found["kvstow_rpc_duration_seconds_count OK Store"] == 2
    assert found["kvstow_lock_acquisitions_total"] > 0


def test_a_reset_under_a_copy_shows_until_the_copy_has_ended(daemon: Kvstowd) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2], [0, 1])
        with daemon.held_stores():
            held = engine.begin_store([5], [5])
            wait_for(
                lambda: daemon.metrics()["kvstow_transfers_in_flight store running"] == 1,
                "the running store",
            )
            assert engine.session.reset().drained is False
            during = daemon.metrics()
        assert held.wait(60)
        after = daemon.metrics()
    assert during["kvstow_transfers_in_flight store abandoned"] == 1
    assert during["kvstow_pool_bytes quarantined"] == BLOCK_BYTES
    assert during["kvstow_oldest_transfer_age_seconds"] > 0
    assert after["kvstow_transfers_in_flight store abandoned"] == 0
    assert after["kvstow_pool_bytes quarantined"] == 0
    assert after["kvstow_transfers_total store abandoned"] == 1
    assert after["kvstow_dropped_blocks_total reset"] == 2
    assert after["kvstow_resets_total model "] == 1


def test_a_copy_that_does_not_end_turns_the_device_red_and_nothing_else(directory: Path) -> None:
    settings = {"debug_service": True, "max_deadline_s": 0.05}
    with (
        running_kvstowd(directory, **settings) as daemon,
        connected_engine(daemon.target) as engine,
    ):
        with daemon.held_stores():
            held = engine.begin_store([1], [0])
            wait_for(lambda: not daemon.serving("device"), "a red device")
            assert daemon.serving()
            assert daemon.serving("liveness")
            assert daemon.metrics()["kvstow_stuck_transfers"] == 1
            assert daemon.metrics()["kvstow_overdue_transfers_total"] == 1
        assert held.wait(60)
        wait_for(lambda: daemon.serving("device"), "a device that has recovered")


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics/more"])
def test_other_paths_are_not_found_and_say_where_the_metrics_are(
    daemon: Kvstowd, path: str
) -> None:
    url = urljoin(daemon.wait_line("metrics served")["url"], path)
    with pytest.raises(HTTPError) as refused:
        urlopen(url, timeout=DEADLINE_S)
    with refused.value as answer:
        assert answer.code == 404
        assert answer.read() == b"The metrics are at /metrics\n"


def test_no_endpoint_without_an_address(directory: Path) -> None:
    with running_kvstowd(directory, metrics_listen="") as daemon:
        assert "metrics served" not in {line["event"] for line in daemon.lines}
