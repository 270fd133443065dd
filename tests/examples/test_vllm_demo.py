"""What the vLLM demo asks a server, and what it claims of the answers; a stub stands for vLLM."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from rich.console import Console

from examples.demo.daemon import DaemonBroken
from examples.demo.report import Report
from examples.vllm_demo import __main__ as demo
from examples.vllm_demo import server as demo_server
from examples.vllm_demo.server import Answer, Server

STUB = Path(__file__).with_name("vllm_stub.py")
Started = Callable[[int, int], Server]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Starts stubs that have so many tokens cached, and so many of those from kvstow."""
    with ExitStack() as cleanup:

        def start(cached: int, external: int) -> Server:
            def command(model: Path, target: str, port: int) -> list[str]:
                return [sys.executable, str(STUB), str(port), str(cached), str(external)]

            with patch.object(demo_server, "_command", command):
                server = Server(Path("model"), "unix:/nowhere", tmp_path / "log")
            cleanup.callback(server.kill)
            server.wait_ready()
            return server

        yield start


def report() -> Report:
    """Writes nowhere."""
    return Report(Console(file=StringIO()))


@pytest.mark.parametrize(("cached", "external"), [(0, 0), (96, 90)])
def test_a_question_brings_text_and_figures(started: Started, cached: int, external: int) -> None:
    answer = started(cached, external).ask("a document", "a question", 24)
    assert answer.text == "an answer"
    assert answer.first_token_s > 0
    assert (answer.prompt_tokens, answer.cached_tokens) == (100, cached)
    assert answer.external_tokens == external


def test_a_server_that_ends_says_what_it_wrote(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with patch.object(demo_server, "_command", lambda *given: command):
        server = Server(Path("model"), "unix:/nowhere", tmp_path / "log")
    with pytest.raises(DaemonBroken, match="no such model"):
        server.wait_ready()
    server.stop()


def test_nobody_else_gets_the_port_of_a_server_that_does_not_listen_yet(tmp_path: Path) -> None:
    ports = []

    def command(model: Path, target: str, port: int) -> list[str]:
        ports.append(port)
        return [sys.executable, "-c", ""]

    with patch.object(demo_server, "_command", command):
        server = Server(Path("model"), "unix:/nowhere", tmp_path / "log")
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", *ports))
    server.stop()


def test_a_server_that_was_killed_can_be_stopped(started: Started) -> None:
    server = started(0, 0)
    server.kill()
    server.stop()


def test_the_server_is_told_of_the_connector() -> None:
    command = demo_server._command(Path("/a/model"), "unix:/a/socket", 1234)
    assert '"target": "unix:/a/socket"' in command[command.index("--kv-transfer-config") + 1]
    assert command[command.index("--port") + 1] == "1234"


COLD = Answer("yes", 2.0, 100, 0, 0)
WARM = Answer("yes", 0.1, 100, 96, 96)


@pytest.mark.parametrize(
    ("warm", "held"),
    [
        (WARM, [True, True, True]),
        (Answer("yes", 0.1, 100, 96, 32), [False, True, True]),
        (Answer("yes", 0.1, 100, 50, 50), [False, True, True]),
        (Answer("yes", 2.1, 100, 96, 96), [True, False, True]),
        (Answer("no", 0.1, 100, 96, 96), [True, True, False]),
    ],
)
def test_a_claim_holds_only_if_it_is_true(warm: Answer, held: list[bool]) -> None:
    """That it came from kvstow, that it was sooner, that it is the same."""
    said = report()
    demo._compare(said, [COLD], [warm])
    assert [holds for _, holds in said.claims] == held
    assert said.holds == all(held)
