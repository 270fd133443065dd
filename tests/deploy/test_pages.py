"""What the pages on deployment say can be done: their commands run, and their links lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from kvstow.server.command_line import CLIENT_VARIABLES
from kvstow.server.config import PREFIX, Config
from support.manifests import KUBECTL, KUBERNETES, ROOT, environment

PAGES = sorted((ROOT / "docs" / "deploy").glob("*.md"))
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page that are written in a language."""
    text = (ROOT / "docs" / "deploy" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def render(kustomization: str, directory: Path) -> dict[str, dict[str, object]]:
    """Render an overlay beside a checkout that is called kvstow; the manifests by their kinds."""
    overlay = directory / "overlay"
    overlay.mkdir()
    (directory / "kvstow").symlink_to(ROOT)
    (overlay / "kustomization.yaml").write_text(kustomization)
    engine = KUBERNETES / "overlays" / "sidecar" / "engine.yaml"
    (overlay / "engine.yaml").write_text(engine.read_text())
    made = subprocess.check_output([KUBECTL, "kustomize", "."], cwd=overlay, text=True)
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(made)}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert links
    assert not missing


@every_page
def test_settings_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(rf"\b{PREFIX}\w+", page.read_text())) - CLIENT_VARIABLES
    assert named
    assert {name.removeprefix(PREFIX).lower() for name in named} <= set(Config.model_fields)


@every_page
def test_make_targets_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", page.read_text()))
    assert named
    assert named <= targets


def test_the_overlay_of_the_page_sets_the_pool_and_the_image(tmp_path: Path) -> None:
    node, _ = blocks("kubernetes.md", "yaml")
    assert blocks("kubernetes.md", "sh") == ["kubectl kustomize .\n"]
    daemon_set = render(node, tmp_path)["DaemonSet"]
    (daemon,) = daemon_set["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
    assert environment(daemon)["KVSTOW_POOL_SIZE"] == "128Gi"
    assert environment(daemon)["KVSTOW_METRICS_LISTEN"] == "0.0.0.0:9478"  # the rest stays
    assert daemon["resources"]["limits"] == {"memory": "130Gi"}
    assert daemon["image"].startswith("registry.example.com/kvstow:")


def test_the_component_of_the_page_gives_an_engine_its_sidecar(tmp_path: Path) -> None:
    _, sidecar = blocks("kubernetes.md", "yaml")
    deployment = render(sidecar, tmp_path)["Deployment"]
    spec = deployment["spec"]["template"]["spec"]  # type: ignore[index]
    assert [container["name"] for container in spec["initContainers"]] == ["kvstowd"]
    assert [container["name"] for container in spec["containers"]] == ["engine"]
