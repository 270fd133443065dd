"""The settings in force: checked without a start, logged once, shown to administrators; never a secret."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from kvstow.client import Client
from support.client_engine import PATIENT
from support.kvstowd import COMMAND, environment, running_kvstowd


def check_config(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--check-config", *arguments],
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_settings_that_are_right_are_printed_as_a_file() -> None:
    checked = check_config("--pool-size", "64MiB", KVSTOW_POLICY="arc")
    assert checked.returncode == 0, checked.stderr
    settings = tomllib.loads(checked.stdout)
    assert (settings["pool_size"], settings["policy"]) == ("64MiB", "arc")
    assert 'pool_size = "64MiB"  # flag' in checked.stdout
    assert 'policy = "arc"  # environment' in checked.stdout
    assert "# listen is not set" in checked.stdout


def test_settings_that_are_wrong_are_all_named() -> None:
    checked = check_config("--pol=lru", "--max-keys", "0", KVSTOW_PIECE_SIZE="1")
    assert (checked.returncode, checked.stdout) == (2, "")
    heading, *lines = checked.stderr.splitlines()
    assert heading == "kvstowd: the settings are wrong"
    assert sorted(line.partition(":")[0] for line in lines) == ["--pol", "max_keys", "piece_size"]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (
            ["--pool-size=64TiB"],
            r"pool_size: 65536\.00 GiB are more than there is: .*MemTotal in /proc/meminfo is \S+ GiB.*",
        ),
        (
            ["--pool-size=64TiB", "--pool-path=/dev/shm"],
            r"pool_size: 65536\.00 GiB are more than there is: .*size of /dev/shm is \S+ [GM]iB.*",
        ),
        (["--pool-path=/nowhere"], r"pool_path: No such file or directory: /nowhere"),
        (["--pool-path=/proc"], r"pool_path: /proc is on none of tmpfs, hugetlbfs or ramfs, .*"),
        (["--pool-size", "-5GiB"], r"pool_size: a size is written .*, not '-5GiB' \(flag\)"),
    ],
)
def test_a_pool_that_this_machine_cannot_give_is_one_line_with_the_numbers(
    flags: list[str], complaint: str
) -> None:
    checked = check_config(*flags)
    assert (checked.returncode, checked.stdout) == (2, "")
    heading, line = checked.stderr.splitlines()
    assert heading == "kvstowd: the settings are wrong"
    assert re.fullmatch(complaint, line), line


def test_a_pool_that_cannot_be_does_not_hide_what_else_is_wrong() -> None:
    checked = check_config(
        "--pool-size=64TiB", "--polcy=lru", "--tokens=/nowhere", "--socket-owner=no-such-user"
    )
    assert [line.partition(":")[0] for line in checked.stderr.splitlines()[1:]] == [
        "--polcy",
        "tokens",
        "socket_owner",
        "pool_size",
    ]


def test_a_variable_that_is_almost_a_setting_is_named() -> None:
    checked = check_config(KVSTOW_POOLSIZE="1GiB")
    assert checked.returncode == 0
    assert "KVSTOW_POOL_SIZE" in checked.stderr


def test_the_settings_in_force_are_one_event_and_are_shown(directory: Path) -> None:
    with running_kvstowd(directory, policy="arc") as daemon:
        (line,) = [line for line in daemon.lines if line["event"] == "settings"]
        assert (line["policy"], line["pool_size"], line["max_keys"]) == ("arc", "1MiB", "4096")
        with Client(daemon.target, PATIENT) as client:
            shown = {found.name: found for found in client.administration.settings()}
    assert (shown["policy"].value, shown["policy"].source) == ("arc", "flag")
    assert (shown["max_keys"].value, shown["max_keys"].source) == ("4096", "default")
    assert shown["listen"].value == ""


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        (f"--socket=/run/{'x' * 110}", "socket: the path is longer than 107 bytes"),
        ("--socket-owner=no-such-user", "socket_owner: there is no user no-such-user"),
        ("--socket-group=4294967295", "socket_group: there is no group 4294967295"),
    ],
)
def test_a_socket_that_there_cannot_be_is_found_without_a_start(
    setting: str, complaint: str
) -> None:
    checked = check_config(setting)
    assert (checked.returncode, checked.stdout) == (2, "")
    assert complaint in checked.stderr


def test_tokens_and_certificates_are_checked_as_well(directory: Path) -> None:
    tokens = directory / "tokens.toml"
    tokens.write_text("[[token]]\nname = 'x'\nrole = 'root'\n")
    checked = check_config("--tokens", str(tokens))
    assert (checked.returncode, checked.stdout) == (2, "")
    assert "tokens: " in checked.stderr
    assert "number 1: role" in checked.stderr
    missing = ["--tls-cert", str(directory / "none"), "--tls-key", str(directory / "none")]
    checked = check_config(*missing)
    assert checked.returncode == 2
    assert "tls_cert: cannot read" in checked.stderr
    assert "Traceback" not in checked.stderr


def test_of_files_and_the_socket_everything_that_is_wrong_is_named(directory: Path) -> None:
    absent = directory / "absent"
    checked = check_config(
        *(f"--{name}={absent}" for name in ("tls-cert", "tls-key", "tokens")),
        "--socket-owner=no-such-user",
    )
    assert checked.returncode == 2
    assert [line.partition(":")[0] for line in checked.stderr.splitlines()[1:]] == [
        "tls_cert",
        "tokens",
        "socket_owner",
    ]
