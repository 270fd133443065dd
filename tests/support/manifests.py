"""The manifests as kustomize renders them, and what is read out of them."""

import functools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import TypeAdapter

from kvstow.server.sizes import Size

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
KUBECTL = Path(sys.executable).parent / "kubectl"
OVERLAYS = ("node", "node-cuda", "sidecar", "sidecar-cuda")

Manifest: TypeAlias = dict[str, Any]


@functools.cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    """Everything that `kubectl apply --kustomize` would send."""
    made = subprocess.run(
        [KUBECTL, "kustomize", KUBERNETES / "overlays" / overlay],
        check=True,
        capture_output=True,
        text=True,
    )
    assert not made.stderr, made.stderr  # deprecations
    return tuple(yaml.safe_load_all(made.stdout))


def the(overlay: str, *kinds: str) -> Manifest:
    """The one manifest of one of these kinds."""
    (found,) = (manifest for manifest in rendered(overlay) if manifest["kind"] in kinds)
    return found


def pod(overlay: str) -> Manifest:
    """The pod that the overlay's workload makes."""
    template: Manifest = the(overlay, "DaemonSet", "Deployment")["spec"]["template"]
    return template


def containers(overlay: str) -> Iterator[Manifest]:
    """All containers of the pod."""
    spec = pod(overlay)["spec"]
    yield from spec.get("initContainers", ())
    yield from spec["containers"]


def container(overlay: str, name: str) -> Manifest:
    """The container of that name."""
    (found,) = (found for found in containers(overlay) if found["name"] == name)
    return found


def environment(of: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a container."""
    return {variable["name"]: variable["value"] for variable in of.get("env", ())}


def mounts(of: Mapping[str, Any]) -> dict[str, str]:
    """Which volume a container has at which path."""
    return {mount["mountPath"]: mount["name"] for mount in of.get("volumeMounts", ())}


def size_bytes(quantity: str) -> int:
    """A size as Kubernetes writes it."""
    return int(TypeAdapter(Size).validate_python(quantity))
