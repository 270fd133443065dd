"""Wraps the rules of deploy/prometheus for the Prometheus Operator.

Kustomize reads no files beside its own, so the rules are there a second time. Run from the root of the repository;
`--check` writes nothing and exits with 1 when the copy is not what it would be.
"""

import sys
from pathlib import Path

import yaml

SOURCES = (Path("deploy/prometheus/rules.yaml"), Path("deploy/prometheus/alerts.yaml"))
COPY = Path("deploy/kubernetes/components/metrics/rules.yaml")
HEADING = (
    "# Generated from deploy/prometheus by `make kubernetes-rules`: change the rules there.\n"
)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def wrapped() -> str:
    """The rules as one resource."""
    groups = [
        group for source in SOURCES for group in yaml.safe_load(source.read_text())["groups"]
    ]
    resource = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "kvstow"},
        "spec": {"groups": groups},
    }
    return HEADING + yaml.dump(resource, Dumper=_Dumper, sort_keys=False, width=110)


def main() -> int:
    """Write the copy, or say whether it is what it would be."""
    text = wrapped()
    if "--check" not in sys.argv[1:]:
        COPY.write_text(text)
    elif not COPY.exists() or COPY.read_text() != text:
        print(f"{COPY} differs from {SOURCES[0].parent}: run 'make kubernetes-rules'")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
