"""docs/security.md: its examples work, and the numbers it names are those of the code."""

import hashlib
import re
import subprocess
from pathlib import Path

from kvstow.client.credentials import VARIABLES, Token
from kvstow.server.command_line import CLIENT_VARIABLES
from kvstow.server.config import Config
from kvstow.server.rpc.callers import Role
from kvstow.server.rpc.open_calls import REQUEST_S
from kvstow.server.rpc.options import ServerOptions
from kvstow.server.rpc.server import (
    CALLS_PER_THREAD,
    CHANNEL_OPTIONS,
    CONNECTIONS_PER_SESSION,
    STREAMS_PER_THREAD,
)
from kvstow.server.rpc.tokens import read_tokens, whose

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_file_of_tokens_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(example("toml"), encoding="utf-8")
    engine, administrator = read_tokens(path, None)
    assert (engine.tenant, engine.memory_path) == ("a", Path("/dev/shm/a"))
    assert administrator.role is Role.ADMINISTRATOR


def test_the_commands_make_a_token_and_its_hash(tmp_path: Path) -> None:
    made = subprocess.run(
        ["sh", "-euc", example("sh")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    file = tmp_path / "tokens.toml"
    digest = made.stdout.split()[0]
    file.write_text(f"[[token]]\nname = 'x'\nrole = 'read-only'\nsha256 = '{digest}'\n")
    ((_, shown),) = Token(tmp_path / "engine.token").metadata()
    token = shown.removeprefix("Bearer ")
    assert hashlib.sha256(token.encode()).hexdigest() == digest
    assert whose(token, read_tokens(file, None)) is not None


def test_every_setting_it_names_exists() -> None:
    named = set(re.findall(r"`((?:socket|tls|max|memory|metrics|health)_\w+)`", PAGE))
    assert named
    assert named <= set(Config.model_fields)


def test_the_daemon_knows_the_client_s_variables_from_its_own() -> None:
    assert set(VARIABLES.values()) < CLIENT_VARIABLES
    assert all(variable in PAGE for variable in VARIABLES.values())


def test_the_numbers_are_those_of_the_code() -> None:
    options = ServerOptions(None)
    shares = options.shares
    extra = shares.tenant - options.max_sessions
    assert f"of a tenant: one for each of its sessions and {extra} more" in PAGE
    assert f"of another token {shares.token}; of callers without one {shares.nobody}" in PAGE
    assert f"| a request that does not come | {REQUEST_S:g} s;" in PAGE
    assert f"| connections | {CONNECTIONS_PER_SESSION} for each of `max_sessions`" in PAGE
    handshake_s = dict(CHANNEL_OPTIONS)["grpc.server_handshake_timeout_ms"] / 1000
    assert f"ends after {handshake_s:g} s |" in PAGE
    assert f"| {STREAMS_PER_THREAD} and {CALLS_PER_THREAD} for each thread |" in PAGE
