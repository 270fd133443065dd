"""A real Prometheus that scrapes one daemon twice a second; `make test-operate` puts it where it is found here."""

import json
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.waiting import DEADLINE_S, wait_for

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ROOT / ".tools/prometheus/bin"
RULES = ROOT / "deploy/prometheus/rules.yaml"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
SCRAPE_S = 0.5
CONFIG = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: {rules}
scrape_configs:
  - job_name: kvstow
    static_configs: [{{targets: ["{target}"]}}]
"""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: its labels, and values by Unix time."""

    labels: Mapping[str, str]
    values: Sequence[tuple[float, float]]


class Prometheus:
    """A server that is ready.

    Args:
        directory: for its configuration and data.
        target: host and port of the daemon's metrics.
        rules: files of rules.
    """

    def __init__(self, directory: Path, target: str, rules: Sequence[Path]) -> None:
        config = directory / "prometheus.yaml"
        files = json.dumps([str(path) for path in rules])
        config.write_text(CONFIG.format(rules=files, target=target), encoding="utf-8")
        self._lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [
                BINARIES / "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={directory / 'data'}",
                "--web.listen-address=127.0.0.1:0",
                "--log.format=json",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        """Wait until it has scraped, which it begins some seconds after its start."""
        ready = "Server is ready to receive web requests."
        wait_for(
            lambda: self._said(ready) or self._process.poll() is not None, "a ready Prometheus"
        )
        assert self._said(ready), self._lines[-3:]
        wait_for(lambda: self.now("up"), "the first scrape", every_s=SCRAPE_S)

    def now(self, expression: str) -> list[Series]:
        """What an expression says now."""
        answer = self._ask("query", query=expression)
        return [Series(each["metric"], [_point(each["value"])]) for each in answer["result"]]

    def over(self, expression: str, start: float, end: float, step_s: float) -> list[Series]:
        """What an expression says between two Unix times."""
        span = {"start": str(start), "end": str(end), "step": str(step_s)}
        answer = self._ask("query_range", query=expression, **span)
        return [
            Series(each["metric"], [_point(value) for value in each["values"]])
            for each in answer["result"]
        ]

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        alerts = self._ask("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def trouble(self) -> list[str]:
        """What its rules complain of."""
        groups = self._ask("rules")["groups"]
        return [
            rule["lastError"] for group in groups for rule in group["rules"] if "lastError" in rule
        ]

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)

    def _ask(self, what: str, **parameters: str) -> Any:
        listening = self._said("Listening on")
        assert listening is not None
        url = f"http://{listening['address']}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
            return json.load(reply)["data"]

    def _said(self, message: str) -> dict[str, Any] | None:
        return next((line for line in self._lines if line.get("msg") == message), None)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._lines.append(json.loads(line) if line.startswith("{") else {"msg": line})


@contextmanager
def running_prometheus(
    directory: Path, metrics_url: str, rules: Sequence[Path]
) -> Iterator[Prometheus]:
    """A Prometheus that is gone afterwards."""
    server = Prometheus(directory, urllib.parse.urlsplit(metrics_url).netloc, rules)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
