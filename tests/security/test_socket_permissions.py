"""Who may connect to the Unix socket, and whose directory it may lie in."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kvstow.server.rpc.unix_socket import Permissions, SocketError, SocketPath
from support.kvstowd import running_kvstowd
from support.users import NOBODY, without_privileges

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_socket_is_its_owner_s_by_default(directory: Path) -> None:
    with running_kvstowd(directory) as daemon:
        assert mode(daemon.socket) == 0o600
        assert mode(Path(f"{daemon.socket}.lock")) == 0o600


@pytest.mark.parametrize(("wanted", "lock"), [("0660", 0o640), ("0666", 0o644)])
def test_the_socket_has_the_mode_that_is_asked_for(
    directory: Path, wanted: str, lock: int
) -> None:
    with running_kvstowd(directory, socket_mode=wanted) as daemon:
        assert mode(daemon.socket) == int(wanted, 8)
        assert mode(Path(f"{daemon.socket}.lock")) == lock


@ROOT_ONLY
def test_the_socket_has_the_owner_and_group_that_are_asked_for(directory: Path) -> None:
    settings = {"socket_mode": "0660", "socket_owner": "nobody", "socket_group": "12345"}
    with running_kvstowd(directory, **settings) as daemon:
        for path in (daemon.socket, Path(f"{daemon.socket}.lock")):
            assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, 12345)


@ROOT_ONLY
@pytest.mark.parametrize(
    ("settings", "permitted"),
    [
        ({}, False),
        ({"socket_mode": "0660"}, False),
        ({"socket_mode": "0660", "socket_group": NOBODY}, True),
        ({"socket_owner": "nobody"}, True),
        ({"socket_mode": "0666"}, True),
    ],
)
def test_another_user_gets_in_if_and_only_if_that_was_said(
    directory: Path, settings: dict[str, object], permitted: bool
) -> None:
    directory.chmod(0o755)
    with running_kvstowd(directory, **settings) as daemon:
        assert can_connect(daemon.socket, NOBODY) is permitted


CONNECT = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


def can_connect(path: Path, user: int) -> bool:
    """Whether a process of another user, in a group of the same number and no other, gets through."""
    command = [sys.executable, "-I", "-c", CONNECT, str(path), str(user)]
    ended = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    if ended.returncode != 0:
        assert b"PermissionError" in ended.stderr
    return ended.returncode == 0


@pytest.fixture
def place(directory: Path) -> Path:
    """A directory that a test may open to others."""
    inner = directory / "run"
    inner.mkdir(mode=0o700)
    return inner


@pytest.mark.parametrize("open_mode", [0o777, 0o1777, 0o775, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(place: Path, open_mode: int) -> None:
    place.chmod(open_mode)
    with pytest.raises(SocketError) as refusal:
        SocketPath(place / "kvstow.sock").claim()
    assert f"others may write to {place} (mode {open_mode:04o}" in str(refusal.value)
    assert "--socket-shared-directory" in str(refusal.value)
    assert list(place.iterdir()) == []


def test_a_directory_that_others_may_read_is_not(place: Path) -> None:
    place.chmod(0o755)
    path = SocketPath(place / "kvstow.sock")
    path.claim()
    path.release()


def test_a_shared_directory_may_be_accepted(place: Path) -> None:
    place.chmod(0o777)
    path = SocketPath(place / "kvstow.sock", Permissions(shared_directory=True))
    path.claim()
    path.release()


@ROOT_ONLY
def test_a_directory_of_another_user_is_refused(place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    with pytest.raises(SocketError, match=f"owner {NOBODY}"):
        SocketPath(place / "kvstow.sock").claim()


@pytest.mark.parametrize(
    ("socket_mode", "expected"), [(0o600, 0o700), (0o660, 0o710), (0o666, 0o711)]
)
def test_a_directory_that_is_made_lets_those_through_who_may_connect(
    directory: Path, socket_mode: int, expected: int
) -> None:
    previous = os.umask(0)
    try:
        path = SocketPath(directory / "new" / "kvstow.sock", Permissions(socket_mode))
        path.claim()
    finally:
        os.umask(previous)
    assert mode(directory / "new") == expected
    path.release()


@ROOT_ONLY
@pytest.mark.parametrize(
    "settings",
    [
        {"socket_owner": "nobody"},
        {"socket_mode": "0660", "socket_group": NOBODY},
        {"socket_mode": "0666"},
    ],
)
def test_who_may_connect_gets_through_a_directory_that_was_made(
    directory: Path, settings: dict[str, object]
) -> None:
    directory.chmod(0o755)
    with running_kvstowd(directory / "new", **settings) as daemon:
        assert daemon.socket.parent.stat().st_uid == 0
        assert can_connect(daemon.socket, NOBODY)
    with running_kvstowd(directory / "new", **settings) as daemon:  # and it is taken again
        assert can_connect(daemon.socket, NOBODY)


@pytest.mark.parametrize(
    ("permissions", "complaint"),
    [
        (Permissions(owner="no-such-user"), "socket_owner: there is no user no-such-user"),
        (Permissions(group="no-such-group"), "socket_group: there is no group no-such-group"),
        (Permissions(owner="\u00b2"), "socket_owner: there is no user \u00b2"),
        (Permissions(owner="-1"), "socket_owner: there is no user -1"),
        (Permissions(owner="4294967295"), "socket_owner: there is no user 4294967295"),
        (Permissions(group="9" * 5000), "socket_group: there is no group 9"),
        (Permissions(group="a\0"), "socket_group: there is no group a"),
    ],
)
def test_whoever_does_not_exist_is_named(
    place: Path, permissions: Permissions, complaint: str
) -> None:
    with pytest.raises(SocketError, match=complaint):
        SocketPath(place / "kvstow.sock", permissions).claim()


@ROOT_ONLY
def test_what_may_not_be_given_away_is_one_line(place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    os.chown(place.parent, NOBODY, NOBODY)
    with without_privileges(), pytest.raises(SocketError) as refusal:
        SocketPath(place / "kvstow.sock", Permissions(owner="root")).claim()
    assert str(refusal.value).startswith(f"cannot serve {place / 'kvstow.sock'}: ")
    assert "\n" not in str(refusal.value)
