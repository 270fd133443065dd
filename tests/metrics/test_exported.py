"""What a daemon exports is what is declared, and the page says so."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics

from kvstow.server.metrics.families import SECTIONS
from kvstow.server.metrics.family import Family, Kind
from support.client_engine import connected_engine
from support.kvstowd import Kvstowd, placed_kvstowd
from support.waiting import DEADLINE_S

ROOT = Path(__file__).resolve().parents[2]
DECLARED = {family.name: family for _, families in SECTIONS for family in families}
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Kvstowd]:
    """A daemon that all tests here look at."""
    with placed_kvstowd(debug_service=True) as running:
        yield running


def answered(daemon: Kvstowd, accept: str) -> tuple[str, str]:
    """The content type and the body that a scraper gets."""
    request = Request(daemon.wait_line("metrics served")["url"], headers={"Accept": accept})
    with urlopen(request, timeout=DEADLINE_S) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def exported(daemon: Kvstowd) -> Mapping[str, Metric]:
    """What a daemon exports, by the name that is queried."""
    _, text = answered(daemon, OPENMETRICS)
    families: Mapping[str, Metric] = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in openmetrics.text_string_to_metric_families(text)
    }
    return families


def label_names(family: Metric) -> set[tuple[str, ...]]:
    """Names of the labels of each sample, without that of a bucket."""
    return {tuple(sorted(sample.labels.keys() - {"le"})) for sample in family.samples}


def test_a_daemon_at_work_exports_what_is_declared_and_nothing_else(daemon: Kvstowd) -> None:
    with connected_engine(daemon.target) as engine:
        engine.store([1, 2], [0, 1])
        engine.load([1, 2], [2, 3])
        found = exported(daemon)
    assert found.keys() == DECLARED.keys()
    for name, family in found.items():
        declared = DECLARED[name]
        assert family.type == declared.kind.value, name
        assert label_names(family) == {tuple(sorted(declared.label_names))}, name
        assert family.samples, name


def test_the_page_shows_what_is_declared() -> None:
    check = [sys.executable, "scripts/metrics_page.py", "--check"]
    assert subprocess.run(check, cwd=ROOT, check=False).returncode == 0
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \|", page, re.MULTILINE)
    assert rows == [(f.name, f.kind.value, f.unit) for f in DECLARED.values()]


@pytest.mark.parametrize("accept", ["*/*", "text/plain;version=0.0.4"])
def test_who_does_not_ask_for_openmetrics_gets_text(daemon: Kvstowd, accept: str) -> None:
    content_type, text = answered(daemon, accept)
    assert content_type.startswith("text/plain; version=")
    families = list(parser.text_string_to_metric_families(text))
    assert "kvstow_ready" in {family.name for family in families}


def test_who_asks_for_openmetrics_gets_it_with_units(daemon: Kvstowd) -> None:
    content_type, text = answered(daemon, OPENMETRICS)
    assert content_type.startswith(OPENMETRICS)
    assert text.endswith("# EOF\n")
    assert "# UNIT kvstow_pool_bytes bytes\n" in text
    assert "_created" not in text


@pytest.mark.parametrize("family", DECLARED.values(), ids=DECLARED)
def test_names_follow_the_conventions(family: Family) -> None:
    assert re.fullmatch(r"(kvstow|process)_[a-z0-9_]+", family.name)
    assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
    for unit in ("seconds", "bytes"):
        assert (family.unit == unit) == (unit in family.stem.split("_"))
        assert family.unit != unit or family.stem.endswith(f"_{unit}")
    assert family.meaning.endswith(".")
    assert not set(family.label_names) & {"le", "instance", "job"}
