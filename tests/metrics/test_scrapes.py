"""What spaces count is seen to the last, however they come and go between scrapes and however many scrape at once."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kvstow.server.core.types import GroupKeys, Hold, SessionId
from kvstow.server.daemon import Daemon
from kvstow.server.metrics import Metrics
from support.daemons import Rig, running_daemon
from support.engine import Engine, identity
from support.memory import key
from support.waiting import wait_for

SPACES = 60
SCRAPERS = 4
OWN = {"tenant": "", "model": "model"}


@contextmanager
def watched(**settings: object) -> Iterator[tuple[Rig, Metrics]]:
    """A daemon, and its metrics."""
    with running_daemon(**settings) as rig:  # type: ignore[arg-type]
        metrics = Metrics()
        metrics.watch(rig.daemon)
        yield rig, metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """What one scrape says of a series."""
    found: float | None = metrics.registry.get_sample_value(f"kvstow_{name}", labels)
    return found


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


def live(daemon: Daemon, version: int) -> None:
    """A space of the model is made, looked at once, and left by its engine."""
    space = replace(identity(), weights_version=str(version))
    opened = daemon.open_session(space, "engine", None)
    look_up(daemon, opened.session)
    daemon.close_session(opened.session)


def drop_all(daemon: Daemon) -> None:
    """An operator drops all spaces."""
    for space in daemon.snapshot().spaces:
        daemon.drop_space(space.id)


def test_spaces_that_live_and_die_between_two_scrapes_are_counted() -> None:
    with watched() as (rig, metrics):
        assert value(metrics, "lookups_total", **OWN) is None
        for version in range(3):
            live(rig.daemon, version)
        drop_all(rig.daemon)
        assert value(metrics, "lookups_total", **OWN) == 3
        assert value(metrics, "lookup_blocks_total", **OWN, result="miss") == 3
        assert value(metrics, "resets_total", **OWN) == 3
        live(rig.daemon, 3)
        assert value(metrics, "lookups_total", **OWN) == 4


def test_a_space_that_makes_room_for_another_is_counted() -> None:
    with watched(max_spaces=1) as (rig, metrics):
        for version in range(3):
            live(rig.daemon, version)
        assert len(rig.daemon.snapshot().spaces) == 1
        assert value(metrics, "lookups_total", **OWN) == 3


def test_a_transfer_that_ends_after_its_space_is_counted_once() -> None:
    """Its blocks when it is abandoned, while the space is there; itself when its copy has ended."""
    transfers = {"kind": "store", "outcome": "abandoned"}
    with watched() as (rig, metrics):
        go = rig.hold()
        engine = Engine(rig.daemon, rig.place)
        plan = engine.begin_store([key(1), key(2)], [0, 1])
        rig.wait_held(1)
        rig.daemon.close_session(engine.session)
        rig.daemon.drop_space(engine.space)
        assert value(metrics, "offered_blocks_total", **OWN, status="accepted") == 2
        assert value(metrics, "unstored_blocks_total", **OWN, outcome="abandoned") == 2
        assert value(metrics, "transfers_in_flight", kind="store", state="abandoned") == 1
        assert value(metrics, "transfers_total", **transfers) == 0
        go()
        rig.landed(plan.transfer)
        assert value(metrics, "transfers_in_flight", kind="store", state="abandoned") == 0
        assert value(metrics, "transfers_total", **transfers) == 1
        assert value(metrics, "unstored_blocks_total", **OWN, outcome="abandoned") == 2
        assert value(metrics, "stored_blocks_total", **OWN) == 0


def await_scrape(seen: list[float]) -> None:
    """Wait for a scrape that begins from now on: the one under way may have begun before."""
    enough = len(seen) + 2
    wait_for(lambda: len(seen) >= enough, "a scrape")


@pytest.fixture
def _threads_in_each_others_way() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_in_each_others_way")
def test_all_who_scrape_at_once_see_counters_that_only_rise_and_end_at_the_same() -> None:
    """Some of the spaces are seen alive, others only when they are gone; and not by all of those who scrape."""
    over = threading.Event()
    seen: list[list[float]] = [[] for _ in range(SCRAPERS)]

    def scrape(found: list[float]) -> None:
        last = False
        while not last:
            last = over.is_set()  # asked before, so that one scrape comes when all is over
            found.append(value(metrics, "lookups_total", **OWN) or 0.0)

    with watched() as (rig, metrics), ThreadPoolExecutor(SCRAPERS) as threads:
        scrapers = [threads.submit(scrape, found) for found in seen]
        try:
            for version in range(SPACES):
                live(rig.daemon, version)
                if version % 2:
                    await_scrape(seen[version // 2 % SCRAPERS])
                drop_all(rig.daemon)
        finally:
            over.set()
        for scraper in scrapers:
            scraper.result()
    for found in seen:
        assert found == sorted(found)
        assert found[-1] == SPACES
