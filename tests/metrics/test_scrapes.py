"""Several scrapers at once see counters that only rise, while spaces come and go."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kvstow.server.core.types import GroupKeys, Hold, Identity, KeyScheme, SessionId
from kvstow.server.daemon import Daemon
from kvstow.server.metrics import Metrics
from support.daemons import running_daemon
from support.engine import ONE_RANK

SPACES = 60


def look_up(daemon: Daemon, session: SessionId) -> None:
    """Ask for one key, which is not there."""
    daemon.lookup(
        session,
        1,
        [GroupKeys(0, [bytes(16)])],
        request="",
        hold=Hold.NONE,
        ttl_s=0.0,
        touch=False,
        want_states=False,
    )


def live_and_die(daemon: Daemon, scraped: threading.Event) -> None:
    """Spaces of one model that are looked at, and seen by a scraper, before they are dropped."""
    identity = Identity("", "model", "", ONE_RANK, KeyScheme("sha256", 16, b""))
    for version in range(SPACES):
        opened = daemon.open_session(replace(identity, weights_version=str(version)), "e", None)
        look_up(daemon, opened.session)
        daemon.close_session(opened.session)
        scraped.clear()
        assert scraped.wait(60)
        scraped.clear()
        assert scraped.wait(60)
        daemon.drop_space(opened.space)


@pytest.fixture(autouse=True)
def _threads_in_each_others_way() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_counters_only_rise_for_scrapers_that_come_at_once() -> None:
    metrics, scraped, over = Metrics(), threading.Event(), threading.Event()

    def scrape() -> list[float]:
        seen = []
        while not over.is_set():
            value = metrics.registry.get_sample_value(
                "kvstow_lookups_total", {"tenant": "", "model": "model"}
            )
            seen.append(value or 0.0)
            scraped.set()
        return seen

    with running_daemon() as rig, ThreadPoolExecutor(4) as threads:
        metrics.watch(rig.daemon)
        scrapers = [threads.submit(scrape) for _ in range(4)]
        try:
            live_and_die(rig.daemon, scraped)
        finally:
            over.set()
        for scraper in scrapers:
            assert scraper.result() == sorted(scraper.result())
        last = metrics.registry.get_sample_value(
            "kvstow_lookups_total", {"tenant": "", "model": "model"}
        )
    assert last == SPACES
