"""The compose file is valid, and its three services are wired to each other and to what the daemon has."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvstow.server.command_line import load
from kvstow.server.config import PREFIX, Config
from kvstow.server.process import CALL_GRACE_S, STREAM_GRACE_S

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = DEPLOY / "compose.yaml"


def read(*path: str) -> dict[str, Any]:
    """A YAML file below deploy/."""
    return dict(yaml.safe_load(DEPLOY.joinpath(*path).read_text()))


def service(name: str) -> dict[str, Any]:
    """A service of the compose file."""
    return dict(read(COMPOSE.name)["services"][name])


def mounted(name: str) -> dict[str, Path]:
    """What of deploy/ a service has at which path."""
    parts = (volume.split(":") for volume in service(name)["volumes"])
    return {at: DEPLOY / source for source, at, *_ in parts if source.startswith("./")}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    """The settings that the daemon starts with."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    for name, value in service("kvstowd")["environment"].items():
        default = value.rpartition(":-")[2].removesuffix("}") if value.startswith("$") else value
        monkeypatch.setenv(name, default)
    return load([])


def test_it_is_what_the_compose_specification_allows() -> None:
    checker = Path(sys.executable).parent / "check-jsonschema"
    checked = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", COMPOSE],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def test_every_variable_is_a_setting(config: Config) -> None:
    named = {name.removeprefix(PREFIX).lower() for name in service("kvstowd")["environment"]}
    assert "pool_size" in named
    assert named <= set(Config.model_fields)
    assert service("kvstowd")["image"] == f"kvstow:{version('kvstow')}"


def test_the_daemon_has_no_privilege_and_a_place_for_its_socket(config: Config) -> None:
    daemon = service("kvstowd")
    assert daemon["read_only"] is True
    assert daemon["cap_drop"] == ["ALL"]
    assert daemon["security_opt"] == ["no-new-privileges:true"]
    assert f"socket:{config.socket.parent}" in daemon["volumes"]
    assert "ports" not in daemon  # nobody outside reaches it


def test_it_is_given_more_time_to_stop_than_it_takes(config: Config) -> None:
    given_s = float(service("kvstowd")["stop_grace_period"].removesuffix("s"))
    assert given_s >= config.drain_grace_s + STREAM_GRACE_S + CALL_GRACE_S + 5


def test_prometheus_scrapes_the_daemon_and_reads_the_rules(config: Config) -> None:
    port = config.metrics_listen.rpartition(":")[2]
    scraped = read("compose", "prometheus.yaml")
    (job,) = scraped["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"kvstowd:{port}"]}]
    assert config.metrics_listen.startswith("0.0.0.0:")
    assert service("kvstowd")["expose"] == [port]
    files = mounted("prometheus")
    assert files["/etc/prometheus/prometheus.yml"] == DEPLOY / "compose" / "prometheus.yaml"
    rules = files["/etc/prometheus/rules"]
    for name in scraped["rule_files"]:
        assert (rules / Path(name).name).exists()
    assert f'up{{job="{job["job_name"]}"}} == 0' in (rules / "alerts.yaml").read_text()


def test_grafana_has_the_data_source_and_the_dashboards() -> None:
    files = mounted("grafana")
    assert files["/etc/grafana/provisioning"] == DEPLOY / "compose" / "grafana"
    (source,) = read("compose", "grafana", "datasources", "prometheus.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"] is True
    (provider,) = read("compose", "grafana", "dashboards", "kvstow.yaml")["providers"]
    assert list(files[provider["options"]["path"]].glob("*.json"))


def test_grafana_and_prometheus_are_reached_from_this_machine_alone() -> None:
    for name in ("prometheus", "grafana"):
        (port,) = service(name)["ports"]
        assert port.startswith("127.0.0.1:")
