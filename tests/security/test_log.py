"""What the log says of who is refused, and what it never says: what a caller showed, and what lay in variables when the daemon met a bug."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from kvstow.client import Client, Credentials, Identity, Refused
from kvstow.v1 import cache_pb2
from rpc.rig import identity
from security.rig import ADMINISTRATOR, ENGINE_B, ENTRIES, guarded, write
from support.client_engine import IDENTITY, PATIENT
from support.kvstowd import running_kvstowd
from support.waiting import DEADLINE_S

LIMIT_S = DEADLINE_S
WITH_A_SECRET = """
import sys
import structlog
from kvstow.server.logs import set_up_logging

def compare(presented: str) -> None:
    raise RuntimeError("a bug")

set_up_logging(sys.argv[1], "info")
try:
    compare("".join(["sec", "ret"]))
except RuntimeError as error:
    structlog.get_logger("kvstow").error("bug", exc_info=error)
"""


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_traceback_shows_no_variables(log_format: str) -> None:
    command = [sys.executable, "-c", WITH_A_SECRET, log_format]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert "RuntimeError: a bug" in ended.stderr
    assert "in compare" in ended.stderr
    assert "secret" not in ended.stderr


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def field(name: bytes, value: bytes) -> bytes:
    """A header that is not indexed and not compressed (RFC 7541, section 6.2.2)."""
    return b"\0" + b"".join(bytes([len(text)]) + text for text in (name, value))


def calls(count: int, authorization: bytes) -> bytes:
    """Calls without a request, as no library makes them: their metadata may be any bytes."""
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/kvstow.v1.AdminService/CheckLedger",
        b":authority": b"localhost",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
        b"authorization": authorization,
    }
    block = b"".join(field(name, value) for name, value in fields.items())
    settings, headers, end_of_both = 4, 1, 5
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"".join(
        [
            frame(settings, 0, 0),
            *(frame(headers, end_of_both, 2 * number + 1, block) for number in range(count)),
        ]
    )


def for_tenant(name: str) -> Identity:
    found = Identity()
    found.CopyFrom(IDENTITY)
    found.tenant = name
    return found


@pytest.mark.parametrize(
    ("request_of_b", "method", "why"),
    [
        (
            lambda client: client.open(for_tenant("a"), "engine"),
            "/kvstow.v1.CacheService/OpenSession",
            "the token is of tenant 'b', the identity of 'a'",
        ),
        (
            lambda client: client.administration.stats(),
            "/kvstow.v1.AdminService/GetStats",
            "/kvstow.v1.AdminService/GetStats is not for a token with the role engine",
        ),
    ],
)
def test_who_is_refused_what_is_logged(
    directory: Path, request_of_b: Callable[[Client], object], method: str, why: str
) -> None:
    tokens, mine = directory / "tokens.toml", directory / "token"
    write(tokens, ENTRIES)
    mine.write_text(ENGINE_B)
    with running_kvstowd(directory, tokens=tokens) as daemon:
        with (
            Client(daemon.target, PATIENT, Credentials(token_file=mine)) as client,
            pytest.raises(Refused),
        ):
            request_of_b(client)
        line = daemon.wait_line("a caller is refused")
        daemon.terminate()
        assert daemon.wait_exit() == 0
    assert line["caller"] == "engine-b"
    assert (line["reason"], line["method"], line["why"]) == ("NOT_PERMITTED", method, why)
    assert line["peer"].startswith("unix:")
    assert line["level"] == "warning"
    assert ENGINE_B not in "".join(daemon.output)


def test_refused_tenants_cannot_fill_the_log(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstow.server.rpc.alarm.PERIOD_S", 3600.0)
    with guarded(directory) as daemon, capture_logs() as lines:
        request = cache_pb2.OpenSessionRequest(identity=identity())
        request.identity.tenant = "a"
        for _ in range(50):
            with pytest.raises(grpc.RpcError):
                daemon.cache(ENGINE_B).OpenSession(request)
    said = [line for line in lines if line["event"] == "a caller is refused"]
    assert len(said) == 1


def test_what_a_caller_shows_is_not_logged_also_if_it_is_no_text(directory: Path) -> None:
    tokens = directory / "tokens.toml"
    write(tokens, ENTRIES)
    count = 200
    with running_kvstowd(directory, tokens=tokens, log_level="debug") as daemon:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(LIMIT_S)
            peer.connect(str(daemon.socket))
            peer.sendall(calls(count, b"Bearer \xff" + ADMINISTRATOR.encode()))
            refused = daemon.wait_line("a caller is refused")
            assert refused["why"] == "nobody has the token that the call shows"
        assert daemon.serving("liveness")
        daemon.terminate()
        assert daemon.wait_exit() == 0
    assert ADMINISTRATOR not in "".join(daemon.output)
    assert len(daemon.lines) < count
