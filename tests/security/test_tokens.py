"""The file of tokens: what it may say, that it is read again, and that no token is ever written anywhere."""

import hmac
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from kvstow.client import Client, Credentials, Refused
from kvstow.server.rpc.callers import Caller, Role
from kvstow.server.rpc.tokens import MAX_TOKENS, read_tokens, whose
from kvstow.server.rpc.watched import CredentialError, Watched
from kvstow.v1 import admin_pb2, cache_pb2
from rpc.rig import refused
from security.rig import (
    ADMINISTRATOR,
    ENGINE_A,
    ENGINE_B,
    ENTRIES,
    READER,
    STRANGER,
    Guarded,
    entry,
    guarded,
    write,
)
from support.client_engine import PATIENT
from support.kvstowd import running_kvstowd
from support.memory import shared_directory
from support.waiting import DEADLINE_S, wait_for

INFO = cache_pb2.GetServerInfoRequest()
HASH = "0" * 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.toml"
    write(path, ENTRIES)
    return path


def test_each_token_is_somebody_s(file: Path) -> None:
    callers = read_tokens(file, None)
    found = [whose(token, callers) for token in (ENGINE_A, READER, ADMINISTRATOR)]
    assert [(caller.name, caller.role, caller.tenant) for caller in found if caller] == [
        ("engine-a", Role.ENGINE, "a"),
        ("reader", Role.READ_ONLY, ""),
        ("administrator", Role.ADMINISTRATOR, ""),
    ]
    assert whose(STRANGER, callers) is None
    assert whose("", callers) is None


def test_every_hash_is_compared_and_in_constant_time(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = read_tokens(file, None)
    compared: list[bytes] = []
    in_constant_time = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return in_constant_time(one, other)

    monkeypatch.setattr("kvstow.server.rpc.tokens.hmac.compare_digest", compare)
    for token in (ENGINE_A, ADMINISTRATOR, STRANGER):
        compared.clear()
        whose(token, callers)
        assert compared == [caller.digest for caller in callers]


def test_what_is_shown_of_a_caller_has_no_secret(file: Path) -> None:
    for caller in read_tokens(file, None):
        assert caller.digest.hex() not in repr(caller)
        assert repr(caller.digest) not in repr(caller)


def test_the_place_of_engine_memory_comes_from_the_token_or_from_the_settings(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tokens.toml"
    own = entry("own", "engine", "1", tenant="a", memory_path="/dev/shm/a")
    write(path, [own, entry("other", "engine", "2", tenant="b")])
    callers = read_tokens(path, Path("/dev/shm"))
    assert [caller.memory_path for caller in callers] == [Path("/dev/shm/a"), Path("/dev/shm")]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("token = 3", "token"),
        ("", "token: Field required"),
        ("[[token]", "is not TOML"),
        (b"\xff", "is not TOML"),
        (f"[[token]]\nname='x'\nrole='root'\nsha256='{HASH}'", "number 1: role: Input should be"),
        (
            f"[[token]]\nname='x'\nrole='engine'\nsha256='{HASH}'",
            "number 1: an engine has a tenant",
        ),
        (
            f"[[token]]\nname='x'\nrole='read-only'\ntenant='a'\nsha256='{HASH}'",
            "number 1: only an engine has a tenant",
        ),
        ("[[token]]\nname='x'\nrole='read-only'\nsha256='secret'", "number 1: sha256"),
        (
            "[[token]]\nname='x'\nrole='read-only'\ntoken='secret'",
            "number 1: sha256: Field required",
        ),
        ("[[tokens]]\nname='x'", "tokens: there is no such key (did you mean token?)"),
        (
            f"[[token]]\nname='x'\nrole='read-only'\nsha265='secret'\nsha256='{HASH}'",
            "number 1: sha265: there is no such key (did you mean sha256?)",
        ),
        (f"[[token]]\nname=''\nrole='read-only'\nsha256='{HASH}'", "number 1: name"),
        (f"[[token]]\nname='a b'\nrole='read-only'\nsha256='{HASH}'", "number 1: name"),
        (
            f"[[token]]\nname='x'\nrole='engine'\ntenant=\"a\\n\"\nsha256='{HASH}'",
            "tenant has characters that cannot be printed",
        ),
        (entry("x", "administrator", ""), "number 1: sha256 is that of an empty token"),
        ("\n".join(ENTRIES[:1] * 2), "name engine-a stands there twice"),
        (
            "\n".join([entry("x", "read-only", READER), entry("y", "read-only", READER)]),
            "stands there twice",
        ),
        (
            "\n".join(entry(f"t{n}", "read-only", f"t{n}") for n in range(MAX_TOKENS + 1)),
            "at most 256 items",
        ),
    ],
)
def test_what_a_file_of_tokens_may_not_say(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    path = tmp_path / "tokens.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CredentialError) as refusal:
        read_tokens(path, None)
    assert complaint in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_file_that_others_may_write_to_is_refused(file: Path) -> None:
    file.chmod(0o646)
    with pytest.raises(CredentialError, match="others may write to"):
        read_tokens(file, None)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=r"cannot read .*nothing: No such file"):
        read_tokens(tmp_path / "nothing", None)


@pytest.fixture
def daemon() -> Iterator[Guarded]:
    with shared_directory() as directory, guarded(directory) as daemon:
        yield daemon


def reason(daemon: Guarded, token: str) -> str:
    try:
        daemon.cache(token).GetServerInfo(INFO)
    except grpc.RpcError as refusal:
        return refused(refusal)[1]
    return "OK"


def test_tokens_come_and_go_without_a_restart(daemon: Guarded) -> None:
    assert [reason(daemon, token) for token in (STRANGER, READER)] == ["UNAUTHENTICATED", "OK"]
    daemon.write([*ENTRIES[:2], entry("new", "read-only", STRANGER), ENTRIES[3]])
    assert [reason(daemon, token) for token in (STRANGER, READER)] == ["OK", "UNAUTHENTICATED"]


@pytest.mark.parametrize("content", ["[[token]", "", None])
def test_a_file_that_became_wrong_changes_nothing(daemon: Guarded, content: str | None) -> None:
    if content is None:
        daemon.file.unlink()
    else:
        daemon.file.write_text(content)
    daemon.served.server.refresh()
    assert [reason(daemon, token) for token in (STRANGER, READER)] == ["UNAUTHENTICATED", "OK"]
    daemon.write([entry("new", "read-only", STRANGER), ENTRIES[3]])
    assert [reason(daemon, token) for token in (STRANGER, READER)] == ["OK", "UNAUTHENTICATED"]


@pytest.mark.parametrize(
    "left",
    [
        [ENTRIES[1], *ENTRIES[2:]],
        [entry("engine-a", "engine", "a-newer-token", tenant="a"), *ENTRIES[1:]],
        [entry("engine-a", "engine", ENGINE_A, tenant="c"), *ENTRIES[1:]],
    ],
    ids=["taken away", "replaced", "given to another tenant"],
)
def test_a_stream_ends_with_the_token_that_opened_it(daemon: Guarded, left: list[str]) -> None:
    engines = {token: daemon.engine(token) for token in (ENGINE_A, ENGINE_B)}
    streams = {token: engine.watch() for token, engine in engines.items()}
    daemon.write(left)
    ended = threading.Event()
    if not streams[ENGINE_A].add_callback(ended.set):
        ended.set()
    assert ended.wait(DEADLINE_S)
    assert streams[ENGINE_A].code() is grpc.StatusCode.CANCELLED
    assert streams[ENGINE_B].is_active()
    wait_for(lambda: streaming(daemon) == {"a": False, "b": True}, "the end of the stream")


def test_what_was_read_last_stays(tmp_path: Path) -> None:
    """Certificates are read by whoever is first to see that they have changed; the slower one may have read older ones."""
    path = tmp_path / "file"
    path.write_text("old")
    reading, go_on = threading.Event(), threading.Event()

    def read() -> str:
        found = path.read_text()
        if found == "newer":
            reading.set()
            go_on.wait(60)
        return found

    watched = Watched([path], read)
    path.write_text("newer")
    slow, fast = (threading.Thread(target=watched.refresh, daemon=True) for _ in range(2))
    slow.start()
    assert reading.wait(60)
    path.write_text("the newest")
    fast.start()
    fast.join(0.2)  # it may overtake now, if it can
    go_on.set()
    slow.join(60)
    fast.join(60)
    assert watched.content == "the newest"


def streaming(daemon: Guarded) -> dict[str, bool]:
    admin = daemon.admin(ADMINISTRATOR)
    spaces = admin.ListSpaces(admin_pb2.ListSpacesRequest()).spaces
    tenants = {space.space_id: space.identity.tenant for space in spaces}
    sessions = admin.ListSessions(admin_pb2.ListSessionsRequest()).sessions
    return {tenants[found.space_id]: found.streaming for found in sessions}


def test_a_daemon_reads_its_tokens_again_and_writes_none_of_them(directory: Path) -> None:
    file, mine = directory / "tokens.toml", directory / "mine"
    write(file, ENTRIES)
    mine.write_text(f"{READER}\n")
    with running_kvstowd(directory, tokens=file, log_level="debug") as daemon:
        with Client(daemon.target, PATIENT, Credentials(token_file=mine)) as client:
            settings = client.administration.settings()
            assert {found.name: found.value for found in settings}["tokens"] == str(file)
            write(file, [entry("new", "administrator", STRANGER)])
            daemon.wait_line("read again")
            with pytest.raises(Refused) as refusal:
                client.administration.settings()
            assert refusal.value.reason == "UNAUTHENTICATED"
            mine.write_text(STRANGER)
            wait_for(lambda: answered(client), "the new token to be read")
        daemon.terminate()
        assert daemon.wait_exit() == 0
        said = "".join(daemon.output)
    for token in (READER, STRANGER, ADMINISTRATOR):
        assert token not in said


def answered(client: Client) -> bool:
    try:
        client.administration.check_ledger()
    except Refused:
        return False
    return True


def test_who_is_valid_is_decided_by_everything_that_a_token_says() -> None:
    caller = Caller("x", Role.ENGINE, "a", None, b"1")
    assert caller == Caller("x", Role.ENGINE, "a", None, b"1")
    assert caller != Caller("x", Role.ENGINE, "a", None, b"2")
