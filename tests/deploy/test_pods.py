"""The containers of the manifests, run as a kubelet would; `make image-check` builds their image and runs these tests."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.containers import IMAGE, STORE_AND_LOAD, docker, engine, running, wait_ready
from support.manifests import Manifest, container, environment, mounts, pod
from support.memory import shared_directory

SMALL = "--env=KVSTOW_POOL_SIZE=64MiB"
DEV_SHM = {"path": "/dev/shm", "type": "Directory"}
PROBE = """
import sys
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}") as channel:
    request = health_pb2.HealthCheckRequest(service=sys.argv[2])
    answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=60)
print(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
"""

pytestmark = pytest.mark.skipif(not IMAGE, reason="needs the image: make image-check")


@contextmanager
def volumes(overlay: str) -> Iterator[Mapping[str, Path]]:
    """What a kubelet mounts for the volumes of a pod."""
    with tempfile.TemporaryDirectory() as disk, shared_directory() as memory:
        made = {}
        for volume in pod(overlay)["spec"]["volumes"]:
            name, node, empty = volume["name"], volume.get("hostPath"), volume.get("emptyDir")
            in_memory = (empty or {}).get("medium") == "Memory" or node == DEV_SHM
            made[name] = Path(memory if in_memory else disk, name)
            made[name].mkdir()
            # A directory that is made on the node is root's, every other is everybody's.
            made[name].chmod(0o755 if node and node["type"] == "DirectoryOrCreate" else 0o777)
        yield made


def arguments(overlay: str, found: Manifest, made: Mapping[str, Path]) -> Iterator[str]:
    """How a container of a pod is run."""
    allowed = pod(overlay)["spec"]["securityContext"] | found["securityContext"]
    yield f"--user={allowed['runAsUser']}:{allowed['runAsGroup']}"
    yield "--cap-drop=all"
    yield from (f"--cap-add={name}" for name in allowed["capabilities"].get("add", ()))
    if not allowed["allowPrivilegeEscalation"]:
        yield "--security-opt=no-new-privileges"
    if allowed.get("readOnlyRootFilesystem"):
        yield "--read-only"
    yield from (f"--env={name}={value}" for name, value in environment(found).items())
    yield from (f"--volume={made[name]}:{path}" for path, name in mounts(found).items())


def command(found: Manifest) -> list[str]:
    """What a container runs instead of what its image says."""
    entry, *rest = found.get("command", [""])
    return [*([f"--entrypoint={entry}"] if entry else []), IMAGE, *rest]


def check_probes(name: str, found: Manifest) -> None:
    """Ask what the kubelet would ask."""
    probes = [probe["grpc"] for key, probe in found.items() if key.endswith("Probe")]
    assert probes
    for probe in probes:
        asked = ("python", "-c", PROBE, str(probe["port"]), probe.get("service", ""))
        assert docker("exec", name, *asked).stdout == "SERVING\n"


def test_the_sidecar_serves_the_engine_of_its_pod() -> None:
    daemon = container("sidecar", "kvstowd")
    target = environment(daemon)["KVSTOW_TARGET"]
    with volumes("sidecar") as made:
        run = [*arguments("sidecar", daemon, made), SMALL, *command(daemon)]
        with running(*run) as name:
            wait_ready(name)
            check_probes(name, daemon)
            beside = arguments("sidecar", container("sidecar", "engine"), made)
            stored = docker("run", "--rm", *engine(STORE_AND_LOAD, *beside, target=target))
            assert stored.stdout == "stored and loaded\n"


def test_the_node_daemon_is_given_its_directory_and_serves_engines_of_the_node() -> None:
    prepare, daemon = container("node", "directory"), container("node", "kvstowd")
    with volumes("node") as made:
        for _ in range(2):  # as after a restart of the pod
            docker("run", "--rm", *arguments("node", prepare, made), *command(prepare))
        run = [*arguments("node", daemon, made), SMALL, *command(daemon)]
        with running(*run) as name:
            wait_ready(name)
            check_probes(name, daemon)
            beside = (
                "--user=10001:10001",
                *(f"--volume={made[v]}:{at}" for at, v in mounts(daemon).items()),
            )
            stored = docker("run", "--rm", *engine(STORE_AND_LOAD, *beside))
            assert stored.stdout == "stored and loaded\n"
