"""Writes what the custom resources of the Prometheus Operator may look like, for the tests of the manifests.

Its schemas are in no package that pip finds, but models that were generated from them are. Run from the root of the
repository where a version of these is installed. Rules in CEL are not in the models, and so not in what is written.
"""

import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cloudcoil.models.prometheus_operator import v1  # type: ignore[import-not-found]

PACKAGE = "cloudcoil.models.prometheus_operator"
KINDS = ("PodMonitor", "PrometheusRule")
SAID_OF_FIELDS = {"title", "description", "default"}


def tightened(schema: Any) -> Any:
    """A schema as strict validation by the API server applies it: no field that it does not name, no null."""
    if isinstance(schema, list):
        return [tightened(each) for each in schema]
    if isinstance(schema, str):
        return schema.replace("^(?i)", "(?i)^")  # Go allows flags anywhere
    if not isinstance(schema, Mapping):
        return schema
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        return tightened(options[0])
    made = {key: tightened(of) for key, of in schema.items() if key not in SAID_OF_FIELDS}
    if "properties" in schema:
        made["properties"] = {name: tightened(of) for name, of in schema["properties"].items()}
        made["additionalProperties"] = False
    return made


def needed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that a schema refers to, and those that they refer to."""
    found: dict[str, Any] = {}
    ahead = [schema]
    while ahead:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(ahead.pop())):
            if name not in found:
                found[name] = definitions[name]
                ahead.append(found[name])
    return found


def schema_of(kind: str) -> dict[str, Any]:
    """The schema of a kind. Metadata are alike for all kinds, and the status is the operator's own."""
    schema = tightened(getattr(v1, kind).model_json_schema())
    definitions = schema.pop("$defs")
    schema["properties"].pop("status", None)
    schema["properties"]["metadata"] = {"type": "object", "required": ["name"]}
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return {**schema, "$defs": needed(schema, definitions)}


def main() -> None:
    """Write the schemas of the version that is installed into a folder of its own."""
    installed = version(PACKAGE)
    folder = Path("tests/deploy/schemas") / f"prometheus-operator-{installed.rpartition('.')[0]}"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        source = f"From {PACKAGE} {installed} (Apache-2.0), by scripts/operator_schemas.py."
        schema = {"$comment": source, **schema_of(kind)}
        text = json.dumps(schema, indent=1, sort_keys=True)
        (folder / f"{kind}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
