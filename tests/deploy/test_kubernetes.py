"""The manifests are valid, and name nothing that the daemon does not have."""

import json
from importlib.metadata import version
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from kvstow.client.target import socket_path
from kvstow.server.command_line import CLIENT_VARIABLES, load
from kvstow.server.config import PREFIX, Config
from kvstow.server.process import CALL_GRACE_S, STREAM_GRACE_S
from kvstow.server.rpc.server import DEVICE, LIVENESS, READINESS
from support.manifests import (
    KUBERNETES,
    OVERLAYS,
    ROOT,
    Manifest,
    container,
    containers,
    environment,
    mounts,
    pod,
    rendered,
    size_bytes,
    the,
)

KUBERNETES_VERSIONS = ("1.36", "1.37")
OWN_KINDS = {"PodMonitor", "PrometheusRule"}
"""The Prometheus Operator's, which are not of Kubernetes: see `test_operator.py`."""

BOOKS_BYTES = 512 << 20
"""What the daemon may need besides its pool: the process itself, and the books of a million blocks."""

ENGINE_STOP_S = 60
"""What an engine may take to stop."""

every_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


@pytest.fixture
def config(overlay: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The settings that the daemon of this overlay starts with."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    for name, value in environment(container(overlay, "kvstowd")).items():
        monkeypatch.setenv(name, value)
    return load(container(overlay, "kvstowd").get("args", []))


def port(address: str | None) -> int:
    """The port of host:port."""
    assert address is not None
    return int(address.rpartition(":")[2])


def patience_s(probe: Manifest) -> float:
    """For how long a probe may fail without a consequence."""
    return float(probe["periodSeconds"] * probe["failureThreshold"])


def volume(overlay: str, name: str) -> Manifest:
    """What a volume is made of."""
    (found,) = (found for found in pod(overlay)["spec"]["volumes"] if found["name"] == name)
    return dict(found)


def engine_target(overlay: str) -> str:
    """Where the example's engine looks for the daemon."""
    arguments = container(overlay, "engine")["args"]
    options = json.loads(arguments[arguments.index("--kv-transfer-config") + 1])
    return str(options["kv_connector_extra_config"]["target"])


@every_overlay
@pytest.mark.parametrize("kubernetes", KUBERNETES_VERSIONS)
def test_it_is_what_the_schemas_of_kubernetes_allow(overlay: str, kubernetes: str) -> None:
    checked = [manifest for manifest in rendered(overlay) if manifest["kind"] not in OWN_KINDS]
    assert checked
    for manifest in checked:
        kubernetes_validate.validate(manifest, kubernetes, strict=True)


@every_overlay
def test_every_variable_is_a_setting(overlay: str) -> None:
    named = {name for found in containers(overlay) for name in environment(found)}
    ours = {name for name in named if name.startswith(PREFIX)} - CLIENT_VARIABLES
    assert f"{PREFIX}POOL_SIZE" in ours
    assert {name.removeprefix(PREFIX).lower() for name in ours} <= set(Config.model_fields)


@every_overlay
def test_the_image_is_this_version(overlay: str) -> None:
    assert container(overlay, "kvstowd")["image"] == f"kvstow:{version('kvstow')}"


@every_overlay
def test_ports_are_those_the_daemon_listens_on(overlay: str, config: Config) -> None:
    ports = {p["name"]: p["containerPort"] for p in container(overlay, "kvstowd")["ports"]}
    assert ports == {
        "kvstow-metrics": port(config.metrics_listen),
        "kvstow-health": port(config.health_listen),
    }
    for address in (config.metrics_listen, config.health_listen):
        assert str(address).startswith("0.0.0.0:")  # others than the pod have to reach it
    assert config.listen is None  # and nothing but these two


@every_overlay
def test_probes_ask_for_services_that_exist_and_give_the_start_its_time(
    overlay: str, config: Config
) -> None:
    daemon = container(overlay, "kvstowd")
    probes = {name: daemon[name] for name in daemon if name.endswith("Probe")}
    for probe in probes.values():
        assert probe["grpc"]["port"] == port(config.health_listen)
        assert probe["grpc"].get("service", "") in {READINESS, LIVENESS, DEVICE}
    assert probes["livenessProbe"]["grpc"]["service"] == LIVENESS
    start = probes["startupProbe"]
    assert start["grpc"].get("service", "") == READINESS
    # A pool of a terabyte takes minutes to fault in.
    assert start["periodSeconds"] * start["failureThreshold"] >= 900
    ready = probes["readinessProbe"]
    assert ready["grpc"].get("service", "") == READINESS
    if overlay.startswith("sidecar"):
        # Its readiness is its pod's: no engine may go out of service for it before the daemon is started anew anyway.
        assert patience_s(ready) >= patience_s(probes["livenessProbe"])


@every_overlay
def test_the_pod_is_given_more_time_to_stop_than_the_daemon_takes(
    overlay: str, config: Config
) -> None:
    needed = config.drain_grace_s + STREAM_GRACE_S + CALL_GRACE_S
    if overlay.startswith("sidecar"):
        needed += ENGINE_STOP_S  # sidecars are told after the engine has ended
    assert pod(overlay)["spec"]["terminationGracePeriodSeconds"] >= needed + 5


@every_overlay
def test_the_memory_limit_has_room_for_the_pool_and_the_books(
    overlay: str, config: Config
) -> None:
    resources = container(overlay, "kvstowd")["resources"]
    limit = size_bytes(resources["limits"]["memory"])
    assert limit == size_bytes(resources["requests"]["memory"])
    assert limit >= config.pool_size + BOOKS_BYTES
    assert config.pool_path is None  # anonymous memory, which no volume has to hold
    assert "cpu" not in resources["limits"]


@every_overlay
def test_no_container_has_a_privilege_that_it_does_not_need(overlay: str) -> None:
    spec = pod(overlay)["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert "hostNetwork" not in spec
    assert spec.get("hostPID", False) == spec.get("hostIPC", False) == (overlay == "node-cuda")
    for found in containers(overlay):
        allowed = found["securityContext"]
        assert allowed["allowPrivilegeEscalation"] is False
        assert "privileged" not in allowed
        assert allowed["capabilities"]["drop"] == ["ALL"]
        added = allowed["capabilities"].get("add", [])
        assert added == (["CHOWN"] if found["name"] == "directory" else [])
    daemon = container(overlay, "kvstowd")["securityContext"]
    assert daemon["readOnlyRootFilesystem"] is True
    assert "runAsUser" not in daemon  # the pod's, which is the engine's as well


@every_overlay
def test_the_socket_is_in_a_volume_that_others_can_have(overlay: str, config: Config) -> None:
    daemon = container(overlay, "kvstowd")
    (mounted,) = (path for path in mounts(daemon) if config.socket.is_relative_to(path))
    if overlay.startswith("node"):
        assert volume(overlay, mounts(daemon)[mounted])["hostPath"]["path"] == mounted
        assert config.socket == Path("/run/kvstow/kvstow.sock")
    else:
        assert str(config.socket.parent) != mounted  # an emptyDir is writable by all
        assert socket_path(engine_target(overlay)) == config.socket
        assert socket_path(environment(daemon)["KVSTOW_TARGET"]) == config.socket


@pytest.mark.parametrize("overlay", ["sidecar", "sidecar-cuda"])
def test_engine_and_daemon_are_one_user_with_the_same_memory_and_processes(overlay: str) -> None:
    spec, daemon, engine = (
        pod(overlay)["spec"],
        container(overlay, "kvstowd"),
        container(overlay, "engine"),
    )
    assert spec["shareProcessNamespace"] is True
    assert "runAsUser" not in engine["securityContext"]
    assert mounts(daemon).items() <= mounts(engine).items()
    shared = volume(overlay, mounts(daemon)["/dev/shm"])["emptyDir"]
    cache_gib = int(environment(engine)["VLLM_CPU_KVCACHE_SPACE"])
    assert shared["medium"] == "Memory"
    assert size_bytes(shared["sizeLimit"]) > cache_gib << 30
    assert size_bytes(engine["resources"]["limits"]["memory"]) > cache_gib << 30


@pytest.mark.parametrize("overlay", ["sidecar", "sidecar-cuda"])
def test_the_sidecar_starts_before_the_engine_and_outlives_it(overlay: str) -> None:
    assert container(overlay, "kvstowd") in pod(overlay)["spec"]["initContainers"]
    assert container(overlay, "kvstowd")["restartPolicy"] == "Always"


def test_the_example_engine_loads_our_connector() -> None:
    arguments = container("sidecar", "engine")["args"]
    options = json.loads(arguments[arguments.index("--kv-transfer-config") + 1])
    module = ROOT / "client" / options["kv_connector_module_path"].replace(".", "/")
    assert f"class {options['kv_connector']}" in (module / "connector.py").read_text()
    assert "--enable-prefix-caching" in arguments


@pytest.mark.parametrize("overlay", ["node-cuda", "sidecar-cuda"])
def test_on_gpus_the_processes_see_each_other_and_the_daemon_all_gpus(overlay: str) -> None:
    spec = pod(overlay)["spec"]
    assert spec.get("hostPID") or spec["shareProcessNamespace"]
    assert environment(container(overlay, "kvstowd"))["KVSTOW_CUDA"] == "on"
    assert spec["runtimeClassName"] == "nvidia"
    assert environment(container(overlay, "kvstowd"))["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "nvidia.com/gpu" not in container(overlay, "kvstowd")["resources"]["limits"]


@every_overlay
def test_prometheus_finds_the_daemon(overlay: str, config: Config) -> None:
    monitor = the(overlay, "PodMonitor")["spec"]
    labels = pod(overlay)["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    ports = {p["name"]: p["containerPort"] for p in container(overlay, "kvstowd")["ports"]}
    assert ports[endpoint["port"]] == port(config.metrics_listen)
    jobs = [r["replacement"] for r in endpoint["relabelings"] if r["targetLabel"] == "job"]
    groups = the(overlay, "PrometheusRule")["spec"]["groups"]
    conditions = [rule["expr"] for group in groups for rule in group["rules"]]
    assert f'up{{job="{jobs[0]}"}} == 0' in conditions


@pytest.mark.parametrize("overlay", ["node", "node-cuda"])
def test_only_prometheus_reaches_the_node_daemon_over_the_network(overlay: str) -> None:
    policy = the(overlay, "NetworkPolicy")["spec"]
    labels = pod(overlay)["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy.get("egress", []) == []
    ((allowed,),) = (rule["ports"] for rule in policy["ingress"])
    assert allowed == {"port": "kvstow-metrics"}


def test_every_component_is_in_an_overlay_that_is_tested() -> None:
    used = {
        path.name
        for overlay in OVERLAYS
        for path in (KUBERNETES / "components").iterdir()
        if path.name in (KUBERNETES / "overlays" / overlay / "kustomization.yaml").read_text()
    }
    assert used == {path.name for path in (KUBERNETES / "components").iterdir()}
    assert {path.name for path in (KUBERNETES / "overlays").iterdir()} == set(OVERLAYS)
