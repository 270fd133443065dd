"""What a service manager hears from the daemon, what a kubelet's probes get, and what it is to be process 1."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from structlog.testing import capture_logs

from client.faults import STORE, held
from kvstow.server.notify import ServiceManager
from kvstow.server.process import HEALTH_PERIOD_S
from support.client_engine import connected_engine
from support.kvstowd import COMMAND, WITH_A_BUG, Kvstowd, environment, running_kvstowd
from support.waiting import DEADLINE_S, wait_for

AS_PROCESS_1 = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child")


@contextmanager
def manager_socket(address: str) -> Iterator[socket.socket]:
    """What a service manager listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(address)
        heard.settimeout(DEADLINE_S)
        yield heard


def hear_until(heard: socket.socket, last: str) -> list[str]:
    """The messages up to one that begins with `last`."""
    messages: list[str] = []

    def has_come() -> bool:
        messages.append(heard.recv(4096).decode())
        return messages[-1].startswith(last)

    wait_for(has_come, last)
    return messages


def forget(heard: socket.socket) -> None:
    """Read what was said until now. A socket may take no more than ten messages, and the rest is lost."""
    heard.setblocking(False)
    with suppress(BlockingIOError):
        while heard.recv(4096):
            pass
    heard.settimeout(DEADLINE_S)


def test_the_service_manager_hears_of_the_start_the_life_and_the_drain(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with manager_socket(f"{directory}/notify") as heard:
        monkeypatch.setenv("NOTIFY_SOCKET", f"{directory}/notify")
        with running_kvstowd(directory, debug_service=True) as daemon:
            starting = hear_until(heard, "READY=1")
            assert starting[-2:] == [
                "STATUS=preparing the host pool: 100 %",
                "READY=1\nSTATUS=ready",
            ]
            assert hear_until(heard, "WATCHDOG=1") == ["WATCHDOG=1"]
            with connected_engine(daemon.target) as engine, held(daemon, STORE) as wait_held:
                engine.begin_store([1], [0])
                wait_held()
                forget(heard)
                daemon.terminate()
                assert hear_until(heard, "STOPPING=1")[-1] == "STOPPING=1\nSTATUS=draining"
                assert daemon.process.poll() is None
            assert daemon.wait_exit() == 0


def test_a_daemon_that_found_a_bug_in_itself_is_silent_and_not_live(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = directory / "gate"
    monkeypatch.setattr("support.kvstowd.COMMAND", (sys.executable, "-c", WITH_A_BUG, gate))
    monkeypatch.setenv("NOTIFY_SOCKET", f"{directory}/notify")
    with (
        manager_socket(f"{directory}/notify") as heard,
        running_kvstowd(directory, health_listen="127.0.0.1:0") as daemon,
    ):
        port = daemon.wait_line("health served")["port"]
        hear_until(heard, "WATCHDOG=1")
        assert probe(port, "liveness") == health_pb2.HealthCheckResponse.SERVING
        gate.touch()
        not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
        wait_for(lambda: probe(port, "liveness") == not_serving, "the end of liveness")
        forget(heard)
        heard.settimeout(3 * HEALTH_PERIOD_S)
        with pytest.raises(TimeoutError):
            heard.recv(4096)
        daemon.terminate()
        assert daemon.wait_exit() == 0


def test_a_manager_may_listen_in_the_abstract_namespace() -> None:
    name = f"kvstow-test-{uuid.uuid4()}"
    with manager_socket(f"\0{name}") as heard:
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert heard.recv(4096) == b"READY=1\nSTATUS=ready"


def test_a_manager_that_does_not_listen_is_a_warning_and_the_daemon_serves(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", f"{directory}/nobody")
    with running_kvstowd(directory) as daemon:
        daemon.wait_line("the service manager does not listen")
        assert daemon.serving()
        daemon.terminate()
        assert daemon.wait_exit() == 0
    warnings = [line for line in daemon.lines if line["event"].startswith("the service manager")]
    assert len(warnings) == 1


def test_a_manager_that_does_not_listen_for_a_while_hears_what_comes_later(
    directory: Path,
) -> None:
    """Otherwise its watchdog would end a daemon that is well."""
    address = f"{directory}/notify"
    manager = ServiceManager({"NOTIFY_SOCKET": address})
    with capture_logs() as lines:
        for _ in range(2):
            manager.alive()
            manager.alive()
            with manager_socket(address) as heard:
                manager.alive()
                assert heard.recv(4096) == b"WATCHDOG=1"
            Path(address).unlink()
    assert [line["event"] for line in lines] == ["the service manager does not listen"] * 2


def probe(port: int, service: str) -> int:
    """What a kubelet does: Check on a port, with or without a service."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        answer = health_pb2_grpc.HealthStub(channel).Check(
            request, timeout=DEADLINE_S, wait_for_ready=True
        )
        return int(answer.status)


def test_the_probe_port_says_what_the_socket_says(directory: Path) -> None:
    serving = health_pb2.HealthCheckResponse.SERVING
    not_serving = health_pb2.HealthCheckResponse.NOT_SERVING
    settings = {"health_listen": "127.0.0.1:0", "debug_service": True}
    with running_kvstowd(directory, **settings) as daemon:
        port = daemon.wait_line("health served")["port"]
        assert [probe(port, name) for name in ("", "liveness", "device")] == [serving] * 3
        with connected_engine(daemon.target) as engine, held(daemon, STORE) as wait_held:
            engine.begin_store([1], [0])
            wait_held()
            daemon.terminate()
            wait_for(lambda: probe(port, "") == not_serving, "the end of readiness")
            assert probe(port, "liveness") == serving
        assert daemon.wait_exit() == 0


@pytest.mark.parametrize(
    "method", ["/kvstow.v1.CacheService/GetServerInfo", "/grpc.health.v1.Health/Watch"]
)
def test_the_probe_port_serves_nothing_else(directory: Path, method: str) -> None:
    with running_kvstowd(directory, health_listen="127.0.0.1:0") as daemon:
        port = daemon.wait_line("health served")["port"]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            with pytest.raises(grpc.RpcError) as refused:
                list(channel.unary_stream(method, bytes)(b"", timeout=DEADLINE_S))
            assert "UNIMPLEMENTED" in str(refused.value)


HEALTH_CHECK = ("-m", "kvstow.server.rpc.health_check")
PATIENTLY = (
    "-c",
    """
import sys
from kvstow.server.rpc import health_check
health_check._ANSWER_S = 60
sys.exit(health_check.main())
""",
)


def check_health(
    directory: Path, *, how: Sequence[str] = PATIENTLY, **variables: str
) -> tuple[int, str]:
    """The health check of the image; returns its exit code and what it said."""
    checked = subprocess.run(
        [sys.executable, *how],
        env=environment() | (variables or {"KVSTOW_SOCKET": f"{directory}/kvstow.sock"}),
        check=False,
        capture_output=True,
        text=True,
    )
    return checked.returncode, checked.stdout


def test_the_health_check_of_containers_asks_whether_the_daemon_takes_work(
    directory: Path,
) -> None:
    code, said = check_health(directory, how=HEALTH_CHECK)
    assert code == 1
    assert "does not answer" in said
    with (
        running_kvstowd(directory, debug_service=True) as daemon,
        connected_engine(daemon.target) as engine,
        held(daemon, STORE) as wait_held,
    ):
        assert check_health(directory) == (0, "SERVING\n")
        engine.begin_store([1], [0])
        wait_held()
        daemon.terminate()
        wait_for(lambda: not daemon.serving(), "the end of readiness")
        assert check_health(directory) == (1, "NOT_SERVING\n")


def test_the_health_check_of_containers_needs_no_token(directory: Path) -> None:
    tokens = directory / "tokens.toml"
    hashed = hashlib.sha256(b"secret").hexdigest()
    tokens.write_text(f'[[token]]\nname = "t"\nrole = "administrator"\nsha256 = "{hashed}"\n')
    with running_kvstowd(directory, tokens=tokens):
        assert check_health(directory) == (0, "SERVING\n")


def test_the_health_check_of_containers_finds_the_socket_in_the_file(directory: Path) -> None:
    file = directory / "kvstowd.toml"
    file.write_text(f'socket = "{directory}/kvstow.sock"\n')
    with running_kvstowd(directory):
        assert check_health(directory, KVSTOW_CONFIG=str(file)) == (0, "SERVING\n")


def test_a_probe_port_that_is_taken_is_one_line(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        daemon = Kvstowd(directory, health_listen=address)
        assert daemon.wait_exit() == 1
    assert daemon.output[-1].startswith(f"kvstowd: cannot serve health on {address}")
    assert "Traceback" not in "".join(daemon.output)


def may_unshare() -> bool:
    """Whether this user may make a process namespace."""
    return (
        subprocess.run([*AS_PROCESS_1, "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not may_unshare(), reason="this user may not make process namespaces")
def test_process_1_ends_with_the_second_signal(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives process 1 of a namespace only the signals that it handles itself."""
    monkeypatch.setattr("support.kvstowd.COMMAND", (*AS_PROCESS_1, *COMMAND))
    with running_kvstowd(directory, debug_service=True) as daemon:
        children = Path(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children")
        (process_1,) = children.read_text().split()
        with connected_engine(daemon.target) as engine, held(daemon, STORE) as wait_held:
            engine.begin_store([1], [0])
            wait_held()
            os.kill(int(process_1), signal.SIGTERM)
            daemon.wait_line("draining; a second signal ends the process at once")
            os.kill(int(process_1), signal.SIGTERM)
            assert daemon.wait_exit() == 128 + signal.SIGTERM
