"""Two daemons never share a socket, and one that was killed never stands in the way."""

import os
import socket
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from kvstow.server.rpc.unix_socket import SocketError, SocketPath, private_files
from support.processes import running_process
from support.users import without_privileges

HOLDER = """
import sys, time
from pathlib import Path
from kvstow.server.rpc.unix_socket import SocketPath
SocketPath(Path(sys.argv[1])).claim()
print("claimed", flush=True)
time.sleep(3600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "kvstowd.sock"


def bound(path: Path) -> socket.socket:
    path.parent.mkdir(exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    return listener


def test_the_second_is_told_who_holds_the_socket(path: Path) -> None:
    first, second = SocketPath(path), SocketPath(path)
    first.claim()
    with pytest.raises(SocketError) as refusal:
        second.claim()
    assert str(refusal.value) == (
        f"{path} is served by process {os.getpid()}; end that, or name another path with --socket"
    )

    first.release()
    second.claim()
    second.release()


def test_whether_it_is_served_can_be_asked_before_it_is_claimed(path: Path) -> None:
    first, second = SocketPath(path), SocketPath(path)
    second.check_unserved()
    assert not path.parent.exists()
    first.claim()
    with pytest.raises(SocketError, match=f"{path} is served by process {os.getpid()}; end that"):
        second.check_unserved()

    first.release()
    second.check_unserved()
    first.claim()
    first.release()


def test_a_refused_claim_leaves_the_holder_alone(path: Path) -> None:
    first = SocketPath(path)
    first.claim()
    with bound(path), pytest.raises(SocketError):
        SocketPath(path).claim()
    assert path.is_socket()
    first.release()


def test_a_killed_holder_does_not_stand_in_the_way(path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with running_process(command) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(SocketError, match=f"is served by process {holder.pid};"):
            SocketPath(path).claim()
        holder.kill()
        holder.wait()
    heir = SocketPath(path)
    heir.claim()
    heir.release()


def test_a_socket_that_nobody_serves_is_removed(path: Path) -> None:
    bound(path).close()
    assert path.is_socket()
    claimed = SocketPath(path)
    claimed.claim()
    assert not path.exists()
    claimed.release()


def test_a_socket_that_somebody_else_serves_is_kept(path: Path) -> None:
    with bound(path) as listener:
        listener.listen()
        with pytest.raises(SocketError, match="does not hold its lock"):
            SocketPath(path).claim()
        assert path.is_socket()


def test_what_is_no_socket_is_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(SocketError, match="exists and is not a socket; remove it, or"):
        SocketPath(path).claim()
    assert path.read_text() == "precious"


def test_a_lock_file_is_never_followed_elsewhere(path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path.parent.mkdir()
    path.with_name(f"{path.name}.lock").symlink_to(precious)
    with pytest.raises(SocketError, match=r"cannot serve .*symbolic links"):
        SocketPath(path).claim()
    assert precious.read_text() == "precious"


def test_a_place_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SocketError, match=r"cannot serve .*kvstowd\.sock: ") as refusal:
        SocketPath(tmp_path / "file" / "kvstowd.sock").claim()
    assert "\n" not in str(refusal.value)


def test_a_place_that_is_not_permitted_suggests_to_name_another() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o500)
        with without_privileges(), pytest.raises(SocketError) as refusal:
            SocketPath(Path(directory, "run", "kvstowd.sock")).claim()
    assert str(refusal.value).endswith(": Permission denied; name another path with --socket")


def test_a_path_too_long_for_a_socket_says_so(tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="longer than 107 bytes"):
        SocketPath(tmp_path / ("x" * 107)).claim()


def test_a_socket_is_private_from_the_moment_it_is_bound(path: Path) -> None:
    previous = os.umask(0)
    try:
        with private_files(), bound(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.umask(0) == 0
    finally:
        os.umask(previous)
