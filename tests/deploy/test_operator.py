"""What the Prometheus Operator reads is what its schemas allow; they say of what they were made, and by which script."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.manifests import KUBERNETES, OVERLAYS, the

SCHEMAS = sorted(Path(__file__).with_name("schemas").glob("*/*.json"))
CHECKER = Path(sys.executable).parent / "check-jsonschema"
every_schema = pytest.mark.parametrize(
    "schema", SCHEMAS, ids=lambda schema: f"{schema.parent.name}-{schema.stem}"
)
MISTAKES: Mapping[str, tuple[tuple[str | int, ...], Any]] = {
    "PodMonitor": (("spec", "podMetricsEndpoints", 0, "prot"), "kvstow-metrics"),
    "PrometheusRule": (("spec", "groups", 0, "rules", 0, "for"), "5 minutes"),
}
"""A field that there is not, and a duration that is none."""


def complaints(schema: Path, directory: Path, *manifests: Mapping[str, Any]) -> str:
    """What a schema does not allow in manifests."""
    files = [directory / f"{number}.json" for number, _ in enumerate(manifests)]
    for file, manifest in zip(files, manifests, strict=True):
        file.write_text(json.dumps(manifest), encoding="utf-8")
    checked = subprocess.run(
        [CHECKER, "--regex-variant", "python", "--schemafile", schema, *files],
        check=False,
        capture_output=True,
        text=True,
    )
    first, _, rest = checked.stdout.partition("\n")
    assert first in {"ok -- validation done", "Schema validation errors were encountered."}, first
    assert (checked.returncode == 0) == (not rest)
    return str(rest)


def test_there_are_two_versions_of_each_schema() -> None:
    versions = {path.parent.name for path in SCHEMAS}
    assert len(versions) == 2
    assert len(SCHEMAS) == 2 * len(MISTAKES)


@every_schema
def test_every_overlay_is_allowed(schema: Path, tmp_path: Path) -> None:
    manifests = [the(overlay, schema.stem) for overlay in OVERLAYS]
    assert complaints(schema, tmp_path, *manifests) == ""


@every_schema
def test_a_mistake_is_seen(schema: Path, tmp_path: Path) -> None:
    (*path, last), wrong = MISTAKES[schema.stem]
    broken = json.loads(json.dumps(the("node", schema.stem)))
    place = broken
    for step in path:
        place = place[step]
    place[last] = wrong
    assert str(wrong if last == "for" else last) in complaints(schema, tmp_path, broken)


def test_no_other_kind_is_the_operators() -> None:
    files = (KUBERNETES / "components").rglob("*.yaml")
    texts = [path.read_text(encoding="utf-8") for path in files]
    kinds = {
        manifest["kind"]
        for manifest in map(yaml.safe_load, texts)
        if manifest["apiVersion"].startswith("monitoring.coreos.com/")
    }
    assert kinds == set(MISTAKES)
