"""What is said of versions, clocks and open files."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from cli.doctor.scenes import DAEMON, LIMITS, machine, scene
from cli.doctor.test_memory import FAILURE, OK, WARNING, assert_found
from kvstow.cli import __main__
from kvstow.cli.doctor import software
from kvstow.cli.doctor.findings import Level
from kvstow.cli.runtime import unmet


@pytest.mark.parametrize(("theirs", "level"), [(version("kvstow"), OK), ("0.0.9", WARNING)])
def test_both_sides_have_one_version(tmp_path: Path, theirs: str, level: Level) -> None:
    found = scene(machine(tmp_path, {}), version=theirs)
    assert_found(software.check_versions(found), level, theirs)


@pytest.mark.parametrize(
    ("grpcio", "protobuf", "complaint"),
    [
        ("1.71.2", "5.29", ""),
        ("1.100.0", "7.36.2", ""),
        ("1.71.2", "5.28.3", "protobuf 5.28.3 is older than 5.29"),
        ("1.9.0", "6.33.5", "grpcio 1.9.0 is older than 1.71.2"),
    ],
)
def test_what_is_older_than_the_generated_code_needs_is_named(
    grpcio: str, protobuf: str, complaint: str
) -> None:
    installed = {"grpcio": grpcio, "protobuf": protobuf}
    assert unmet(installed.__getitem__) == complaint


def test_an_old_library_ends_every_command_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = {"grpcio": "1.71.2", "protobuf": "4.25.0"}
    monkeypatch.setattr("kvstow.cli.__main__.version", old.__getitem__)
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "protobuf 4.25.0 is older than 5.29" in line
    assert "pip install --upgrade" in line


def test_the_libraries_here_will_do(tmp_path: Path) -> None:
    assert_found(software.check_libraries(scene(machine(tmp_path, {}))), OK, version("grpcio"))


@pytest.mark.parametrize(
    ("lead_s", "error_s", "level"), [(0.4, 0.0, OK), (-90.0, 0.1, WARNING), (3.0, 2.5, OK)]
)
def test_clocks_are_compared(tmp_path: Path, lead_s: float, error_s: float, level: Level) -> None:
    found = scene(machine(tmp_path, {}))
    assert found.answer is not None
    answer = replace(found.answer, clock_lead_s=lead_s, clock_error_s=error_s)
    assert_found(software.check_clock(replace(found, answer=answer)), level)


@pytest.mark.parametrize(
    ("limit", "used", "level"),
    [("unlimited", 3, OK), ("20000", 3, OK), ("1024", 3, WARNING), ("10", 10, FAILURE)],
)
def test_the_daemon_may_open_what_engines_need(
    tmp_path: Path, limit: str, used: int, level: Level
) -> None:
    files = {f"/proc/{DAEMON}/fd/{number}": "" for number in range(used)}
    files[f"/proc/{DAEMON}/limits"] = LIMITS.format(files=limit, locked=1)
    assert_found(software.check_open_files(scene(machine(tmp_path, files))), level)
