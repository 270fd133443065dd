"""Targets: what names a daemon, and whether anybody is there."""

import fcntl
import socket as sockets
from pathlib import Path

import pytest

from kvstow.client.target import channel_target, check_target, default_target, is_listening


@pytest.mark.parametrize(
    "target", ["unix:/run/kvstow.sock", "unix:relative", "localhost:1234", "[::1]:80"]
)
def test_sockets_and_addresses_are_targets(target: str) -> None:
    check_target(target)


@pytest.mark.parametrize("target", ["", "unix:", "localhost", "/run/kvstow.sock", "a:b"])
def test_anything_else_is_not(target: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        check_target(target)


def test_a_port_that_there_is_not_is_not_taken_for_another() -> None:
    check_target("unix:99999")
    check_target("localhost:65535")
    with pytest.raises(ValueError, match="names port 65536, and the last one is 65535"):
        check_target("localhost:65536")


def test_the_default_is_in_the_user_s_runtime_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert default_target() == "unix:/run/user/7/kvstow/kvstow.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_target() == "unix:/run/kvstow/kvstow.sock"


def test_a_socket_is_listened_at_as_long_as_its_process_has_it_open(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstow.client.target._ANSWER_S", 0.01)
    assert not is_listening(f"unix:{socket}")
    with sockets.socket(sockets.AF_UNIX) as server:
        server.bind(str(socket))
        server.listen(0)
        assert is_listening(f"unix:{socket}")
        for _ in range(3):  # nobody accepts, and the backlog is full
            assert is_listening(f"unix://{socket}")
    assert socket.exists()
    assert not is_listening(f"unix:{socket}")


def test_a_socket_that_somebody_deleted_is_served_as_long_as_its_lock_is_held(
    socket: Path,
) -> None:
    with open(f"{socket}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_listening(f"unix:{socket}")
    assert not is_listening(f"unix:{socket}")


@pytest.mark.parametrize("target", ["unix:/a%41b/c#d?e f", "unix:///a%41b/c#d?e f"])
def test_a_path_is_taken_as_it_is(target: str) -> None:
    assert channel_target(target) == "unix:/a%2541b/c%23d%3Fe%20f"


def test_an_address_is_taken_as_it_is() -> None:
    assert channel_target("[::1]:80") == "[::1]:80"


def test_a_port_is_listened_at_as_long_as_its_process_has_it_open() -> None:
    with bound_socket(0) as reserved:  # nobody else gets the port, and nobody listens with this
        port = reserved.getsockname()[1]
        with bound_socket(port) as server:
            server.listen()
            assert is_listening(f"127.0.0.1:{port}")
        assert not is_listening(f"127.0.0.1:{port}")


def bound_socket(port: int) -> sockets.socket:
    """One of several of this process that have the port."""
    bound = sockets.socket(sockets.AF_INET)
    bound.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound
