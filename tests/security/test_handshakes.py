"""A connection that certificates prevent: what the client and the command line say of it."""

import datetime
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvstow.client import Client, Credentials, TlsFailed, calls
from kvstow.client.handshakes import Handshakes
from security.authority import Authority
from security.test_tls import address_of, shared
from support.client_engine import PATIENT
from support.kvstowd import environment, running_kvstowd
from support.memory import shared_directory

PATIENT_OPTIONS = [
    (name, 60_000 if name == "grpc.min_reconnect_backoff_ms" else value)
    for name, value in calls.CHANNEL_OPTIONS
]
"""With time for a handshake: how an attempt ends is seen, not that it was given up."""

PATIENT_KVSTOW = f"""
from functools import partial
from importlib import import_module
from kvstow.cli import __main__

def import_patient(name):
    commands = import_module(name)
    from kvstow.cli import connection
    from kvstow.client import Budgets, Client, calls
    calls.CHANNEL_OPTIONS = {PATIENT_OPTIONS}
    connection.Client = partial(Client, budgets=Budgets(control_s={PATIENT.control_s}))
    return commands

__main__.import_module = import_patient
__main__.main()
"""
"""`kvstow` with as much time; gRPC is imported when it itself does that, which decides what gRPC writes."""

CA = "--ca-file"
CERT = "--cert-file"
PLAIN, TLS, EXPIRED, MUTUAL = "plain", "tls", "expired", "mutual"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of this process have time, too."""
    monkeypatch.setattr(calls, "CHANNEL_OPTIONS", PATIENT_OPTIONS)


@dataclass
class Scene:
    """Daemons behind certificates.

    Args:
        addresses: where each listens, by name.
        files: of clients, by name.
    """

    addresses: dict[str, str]
    files: dict[str, Path]

    def credentials(self, *names: str) -> Credentials:
        return Credentials(*(self.files[name] for name in names))


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """One daemon without TLS, one with a certificate for `localhost` alone, one whose certificate has expired, and one that
    asks for certificates of clients."""
    with shared_directory() as directory, ExitStack() as stack:
        ours, other = Authority(directory), Authority(shared(directory, "other"))
        files = {"ca": ours.file, "other-ca": other.file}
        files["cert"], files["key"] = ours.sign("engine", stem="engine")
        files["foreign-cert"], files["foreign-key"] = other.sign("engine", stem="engine")
        past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        for_localhost = pair(ours.sign("localhost", stem="tls"))
        for_both = pair(ours.sign("localhost", "127.0.0.1", stem="mutual"))
        expired = pair(ours.sign("localhost", stem="expired", not_after=past))
        daemons: dict[str, dict[str, Any]] = {
            PLAIN: {},
            TLS: for_localhost,
            EXPIRED: expired,
            MUTUAL: {**for_both, "tls_client_ca": ours.file},
        }
        addresses = {
            name: stack.enter_context(listening(shared(directory, name), settings))
            for name, settings in daemons.items()
        }
        yield Scene(addresses, files)


def pair(files: tuple[Path, Path]) -> dict[str, Path]:
    cert, key = files
    return {"tls_cert": cert, "tls_key": key}


@contextmanager
def listening(directory: Path, settings: dict[str, Any]) -> Iterator[str]:
    with running_kvstowd(directory, listen="127.0.0.1:0", insecure=True, **settings) as daemon:
        yield address_of(daemon).replace("127.0.0.1", "localhost")


@pytest.mark.parametrize(
    ("daemon", "brought", "seen", "to_do"),
    [
        (TLS, (), "closed the unencrypted connection", CA),
        (MUTUAL, (), "closed the unencrypted connection", CA),
        (TLS, ("other-ca",), "signed by none of the authorities in", CA),
        (EXPIRED, ("ca",), "has expired", "tls_cert"),
        (MUTUAL, ("ca",), "closed the connection", CERT),
        (MUTUAL, ("ca", "foreign-cert", "foreign-key"), "closed the connection", "tls_client_ca"),
        (PLAIN, ("ca",), "speaks no TLS", "tls_cert"),
    ],
)
def test_what_was_seen_and_what_to_do_is_said(
    scene: Scene, daemon: str, brought: tuple[str, ...], seen: str, to_do: str
) -> None:
    address, credentials = scene.addresses[daemon], scene.credentials(*brought)
    with Client(address, PATIENT, credentials) as client, pytest.raises(TlsFailed) as failure:
        client.server_info()
    assert seen in failure.value.found
    assert address in failure.value.found
    assert to_do in failure.value.next_step
    assert str(failure.value) == f"{failure.value.found}; {failure.value.next_step}"
    assert said(address, credentials) == f"kvstow: {failure.value}"


def test_a_certificate_for_another_name_is_said_to_be(scene: Scene) -> None:
    address = scene.addresses[TLS].replace("localhost", "127.0.0.1")
    with (
        Client(address, PATIENT, scene.credentials("ca")) as client,
        pytest.raises(TlsFailed) as failure,
    ):
        client.server_info()
    assert "is for other names than 127.0.0.1" in str(failure.value)
    assert said(address, scene.credentials("ca")) == f"kvstow: {failure.value}"


def test_the_doctor_says_it_too(scene: Scene) -> None:
    ended = kvstow("doctor", "--target", scene.addresses[TLS])
    assert ended.returncode == 1
    assert "failure  daemon           localhost:" in ended.stdout
    assert "to do: name the file of its authorities" in ended.stdout


def test_certificates_that_fit_are_no_trouble(scene: Scene) -> None:
    known = scene.credentials("ca", "cert", "key")
    with Client(scene.addresses[MUTUAL], PATIENT, known) as client:
        assert client.server_info().boot_id


def said(address: str, credentials: Credentials) -> str:
    """What the command line says: one line."""
    files = (
        ("--ca-file", credentials.ca_file),
        (CERT, credentials.cert_file),
        ("--key-file", credentials.key_file),
    )
    words = [word for flag, path in files if path is not None for word in (flag, str(path))]
    ended = kvstow(*words, "status", "--target", address)
    assert (ended.returncode, ended.stdout) == (3, "")
    (line,) = ended.stderr.splitlines()
    return line


def kvstow(*words: str) -> subprocess.CompletedProcess[str]:
    """A process, so that what gRPC itself writes to standard error is seen."""
    return subprocess.run(
        [sys.executable, "-c", PATIENT_KVSTOW, *words],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("Peer name 10.0.0.1 is not in peer certificate", "other names than 10.0.0.1"),
        ("Connection reset by peer", "closed the unencrypted connection"),
        ("Connection refused", ""),
    ],
)
def test_the_words_of_the_oldest_grpc_are_known(words: str, seen: str) -> None:
    failure = Handshakes("10.0.0.1:9477", Credentials()).failed(
        f"failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:9477: {words}"
    )
    found = "" if failure is None else failure.found
    assert seen in found
    assert bool(seen) == bool(found)


def test_a_connection_that_breaks_later_says_nothing_of_certificates() -> None:
    assert Handshakes("10.0.0.1:9477", Credentials()).failed("Socket closed") is None


@pytest.mark.parametrize("broken", ["ca", "cert", "key"])
@pytest.mark.parametrize("content", ["", "nonsense"])
def test_files_that_are_no_certificates_are_named(
    directory: Path, broken: str, content: str
) -> None:
    authority = Authority(directory)
    cert, key = authority.sign("engine")
    {"ca": authority.file, "cert": cert, "key": key}[broken].write_text(content)
    named = authority.file if broken == "ca" else cert
    with pytest.raises(ValueError, match=str(named)):
        Client("localhost:1", credentials=Credentials(authority.file, cert, key))


def test_a_certificate_and_the_key_of_another_are_refused(directory: Path) -> None:
    authority = Authority(directory)
    cert, _ = authority.sign("engine", stem="one")
    _, key = authority.sign("engine", stem="another")
    with pytest.raises(ValueError, match="no certificate and its key"):
        Client("localhost:1", credentials=Credentials(authority.file, cert, key))
