"""The recipe of the image names nothing that the package does not have; `test_image.py` runs what is made of it."""

import json
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kvstow.server.config import PREFIX, Config
from support.manifests import ROOT

RECIPE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def instructions() -> Iterator[tuple[str, str]]:
    """Each instruction with its arguments, in order."""
    lines = [line for line in RECIPE.splitlines() if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, _, arguments = line.partition(" ")
        if name:
            yield name, arguments


def last_stage() -> list[tuple[str, str]]:
    """The instructions of which the image is made."""
    found = list(instructions())
    return found[max(number for number, (name, _) in enumerate(found) if name == "FROM") :]


def runtime() -> dict[str, str]:
    """The same by name; of those that come several times the last."""
    return dict(last_stage())


def defaults() -> dict[str, str]:
    """The build arguments of the last stage."""
    return dict(argument.split("=", 1) for name, argument in last_stage() if name == "ARG")


def test_the_daemon_is_process_1_of_a_user_without_rights() -> None:
    (entry,) = json.loads(runtime()["ENTRYPOINT"])
    assert entry in PROJECT["project"]["scripts"]
    user, group = (int(number) for number in runtime()["USER"].split(":"))
    assert f"--gid {group} " in RECIPE
    assert f"--uid {user} " in RECIPE
    order = [name for name, _ in instructions()]
    assert order.index("USER") > max(at for at, name in enumerate(order) if name == "RUN")


def test_the_socket_has_a_place_that_a_volume_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert Path(runtime()["VOLUME"]) == Config().socket.parent
    assert f"--mode 0700 {runtime()['VOLUME']}" in RECIPE


def test_it_is_healthy_when_a_program_of_the_package_says_so() -> None:
    command = json.loads(runtime()["HEALTHCHECK"].partition("CMD ")[2])
    assert command[:2] == ["python", "-m"]
    assert find_spec(command[2]) is not None


def test_its_labels_are_those_of_the_package() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', runtime()["LABEL"]))
    assert labels.keys() >= {"title", "description", "licenses", "version", "revision"}
    assert labels["title"] == PROJECT["project"]["name"]
    assert labels["licenses"] == PROJECT["project"]["license"]
    assert defaults()["VERSION"] == version("kvstow")


def test_what_is_installed_exists_and_reaches_the_build() -> None:
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", RECIPE)
    assert {*extras.split(",")} <= PROJECT["project"]["optional-dependencies"].keys()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    made_of = {*PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]}
    made_of |= {
        "pyproject.toml",
        PROJECT["project"]["readme"],
        *PROJECT["project"]["license-files"],
    }
    assert ignored[1] == "*"
    assert let_in == made_of


def test_an_image_is_for_gpus_or_without_or_finds_out() -> None:
    """By a build argument, which becomes the value of a setting."""
    assert defaults()["CUDA"] == Config.model_fields["cuda"].default
    assert f'{PREFIX}CUDA="${{CUDA}}"' in runtime()["ENV"].split()


def test_the_compiler_stays_behind() -> None:
    assert "gcc" in RECIPE
    assert "gcc" not in "".join(runtime().values())
