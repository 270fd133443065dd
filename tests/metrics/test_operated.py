"""A real Prometheus watches a real daemon: every panel, rule and alert sees what it is there to see.

Needs Prometheus: `make test-operate`.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from metrics.prometheus import RULES, SCRAPE_S, Prometheus, Series, running_prometheus
from metrics.scenes import SETTINGS, play
from metrics.written import PanelQuery, impatient_alerts, panel_queries, recording_rules
from support.kvstowd import running_kvstowd
from support.waiting import wait_for

pytestmark = pytest.mark.prometheus
PACE_S = 2.0
FIRES = {
    "hang": {"KvstowTransfersStuck", "KvstowTransfersOverdue", "KvstowResetNotDrained"},
    "failures": {"KvstowTransfersFailing"},
    "refusals": {"KvstowRefusals"},
    "expired leases": {"KvstowLeasesExpiring"},
    "dead engine": {"KvstowSessionsLost"},
    "no room": {"KvstowNoSpace", "KvstowPoolPressure"},
    "drain": {"KvstowNotReady"},
    "gone": {"KvstowDown"},
}
ENDS = {"recovery": {"KvstowTransfersStuck", "KvstowResetNotDrained"}}
NOTHING_TO_SEE = {
    "overview: Internal errors, errors",
    "sessions: Events lost, lost",
    "sessions: Events lost, resyncs",
    "transfers: Overdue and late, late completions",
}
"""Zero in a daemon without errors, whose readers keep up."""

TOO_SHORT_TO_SEE = {"sessions: Copies given to devices, {{device}} {{direction}}"}
"""Copies take a millisecond; whether one is under way when Prometheus looks is chance."""


@dataclass
class Watched:
    """What Prometheus has seen of all scenes.

    Args:
        prometheus: still running.
        began: Unix time.
        fired: alerts that fired, and that had ended, by scene.
    """

    prometheus: Prometheus
    began: float = field(default_factory=time.time)
    fired: dict[str, set[str]] = field(default_factory=dict)

    def seen(self, scene: str) -> None:
        """Wait for the alerts that a scene makes fire or end."""
        firing, ended = FIRES.get(scene, set()), ENDS.get(scene, set())
        self._wait(lambda found: firing <= found, f"{firing} in the scene {scene!r}")
        self._wait(lambda found: not ended & found, f"the end of {ended}")
        self.fired[scene] = self.prometheus.firing()

    def _wait(self, reached: Callable[[set[str]], bool], what: str) -> None:
        wait_for(lambda: reached(self.prometheus.firing()), what, every_s=SCRAPE_S)

    def values(self, expression: str) -> Sequence[float]:
        """All finite values that an expression had."""
        found: Sequence[Series] = self.prometheus.over(expression, self.began, time.time(), 0.5)
        return [v for each in found for _, v in each.values if math.isfinite(v)]


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    """A Prometheus that has seen all scenes."""
    with tempfile.TemporaryDirectory(prefix="kvstow-") as name:
        directory = Path(name)
        impatient = directory / "alerts.yaml"
        impatient.write_text(impatient_alerts(), encoding="utf-8")
        with running_kvstowd(directory, **SETTINGS) as daemon:
            url = daemon.wait_line("metrics served")["url"]
            with running_prometheus(directory, url, [RULES, impatient]) as prometheus:
                found = Watched(prometheus)
                play(daemon, PACE_S, found.seen)
                yield found


@pytest.mark.parametrize("query", list(panel_queries()), ids=lambda query: query.name)
def test_every_panel_shows_something(watched: Watched, query: PanelQuery) -> None:
    values = watched.values(query.expression)
    assert values
    if query.name not in TOO_SHORT_TO_SEE:
        assert (max(values) > 0) == (query.name not in NOTHING_TO_SEE)
    assert min(values) >= 0
    assert query.unit != "percentunit" or max(values) <= 1


@pytest.mark.parametrize("name", list(recording_rules()))
def test_every_rule_records_something(watched: Watched, name: str) -> None:
    assert max(watched.values(name)) > 0
    assert not watched.prometheus.trouble()


@pytest.mark.parametrize(
    ("scene", "alert"), [(scene, name) for scene, names in FIRES.items() for name in sorted(names)]
)
def test_alerts_fire_when_it_happens(watched: Watched, scene: str, alert: str) -> None:
    scenes = list(watched.fired)
    assert alert in watched.fired[scene]
    assert alert not in watched.fired[scenes[scenes.index(scene) - 1]]


def test_alerts_end_with_what_they_are_about(watched: Watched) -> None:
    assert ENDS["recovery"] <= watched.fired["hang"]
    assert not ENDS["recovery"] & watched.fired["recovery"]


def test_nothing_fires_while_all_is_well(watched: Watched) -> None:
    assert watched.fired["work"] == set()
