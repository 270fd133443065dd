"""What a client takes for credentials, and where it finds them."""

from pathlib import Path

import pytest

from kvstow.client import Client, Credentials
from kvstow.client.credentials import VARIABLES, Token
from kvstow.client.target import is_local


def test_the_environment_names_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    assert Credentials.from_environment() == Credentials()
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, f"/etc/{variable}")
    assert Credentials.from_environment() == Credentials(
        Path("/etc/KVSTOW_CA_FILE"),
        Path("/etc/KVSTOW_CERT_FILE"),
        Path("/etc/KVSTOW_KEY_FILE"),
        Path("/etc/KVSTOW_TOKEN_FILE"),
    )


FILE = Path("/etc/file")


@pytest.mark.parametrize(
    ("credentials", "target", "complaint"),
    [
        (Credentials(cert_file=FILE), "unix:/run/s", "go together"),
        (Credentials(ca_file=FILE, key_file=FILE), "host:1", "go together"),
        (Credentials(cert_file=FILE, key_file=FILE), "host:1", r"needs TLS: .*KVSTOW_CA_FILE"),
        (Credentials(token_file=FILE), "host:1", r"travel to host:1 unencrypted: .*--ca-file"),
        (Credentials(token_file=FILE), "10.0.0.1:1", "unencrypted"),
        (Credentials(token_file=FILE), "127.0.0.1.example.com:1", "unencrypted"),
    ],
)
def test_what_would_not_be_secure_is_refused(
    credentials: Credentials, target: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        Client(target, credentials=credentials)


@pytest.mark.parametrize("target", ["unix:/run/s", "127.0.0.1:1", "[::1]:1", "localhost:1"])
def test_a_token_may_stay_on_this_machine_unencrypted(target: str) -> None:
    assert is_local(target)
    Credentials(token_file=FILE).check(target)


@pytest.mark.parametrize("name", ["ca_file", "token_file"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ValueError, match=r"cannot read .*missing: No such file"):
        Client("127.0.0.1:1", credentials=Credentials(**{name: missing}))


@pytest.mark.parametrize("content", ["", "\n", "two words", "t\u00f6ken", "a\nb"])
def test_a_file_without_a_token_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="holds no token"):
        Token(path)


def test_a_token_is_read_again_and_a_wrong_file_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstow.client.credentials.LOOK_S", 0.0)
    path = tmp_path / "token"
    path.write_text("first\n")
    token = Token(path)
    assert token.metadata() == (("authorization", "Bearer first"),)
    path.write_text("second-one")
    assert token.metadata() == (("authorization", "Bearer second-one"),)
    path.write_text("")
    assert token.metadata() == (("authorization", "Bearer second-one"),)
    path.unlink()
    assert token.metadata() == (("authorization", "Bearer second-one"),)
    path.write_text("third")
    assert token.metadata() == (("authorization", "Bearer third"),)
