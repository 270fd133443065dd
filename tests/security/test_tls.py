"""TLS: nobody who is not known gets in, and certificates are replaced while clients are connected."""

import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives import serialization

from kvstow.client import Client, Credentials, Refused, Unreachable
from kvstow.server.rpc.certificates import read_certificates
from kvstow.server.rpc.watched import CredentialError
from kvstow.v1 import cache_pb2, cache_pb2_grpc
from security.authority import Authority
from security.rig import ADMINISTRATOR, ENTRIES, STRANGER, write
from support.client_engine import PATIENT, connected_engine
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import DEADLINE_S

LIMIT_S = DEADLINE_S


def tls_settings(directory: Path, authority: Authority) -> dict[str, Any]:
    cert, key = authority.sign("localhost", "127.0.0.1")
    return {"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key}


def address_of(daemon: Kvstowd) -> str:
    """Where it listens for TCP."""
    return f"127.0.0.1:{daemon.wait_line('listening')['port']}"


def serial_number(address: str, authority: Authority) -> str:
    """Of the certificate that a new connection is served with."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=str(authority.file))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host, int(port)), LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as encrypted,
    ):
        found = encrypted.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def test_a_token_over_tls_opens_and_nothing_else_does(directory: Path) -> None:
    authority, stranger = Authority(directory), Authority(shared(directory, "other"))
    tokens, mine, wrong = (directory / name for name in ("tokens.toml", "mine", "wrong"))
    write(tokens, ENTRIES)
    mine.write_text(ADMINISTRATOR)
    wrong.write_text(STRANGER)
    settings = tls_settings(directory, authority)
    with running_kvstowd(directory, tokens=tokens, **settings) as daemon:
        address = address_of(daemon)
        known = Credentials(ca_file=authority.file, token_file=mine)
        with Client(address, PATIENT, known) as client:
            assert client.server_info().boot_id
            client.administration.check_ledger()
        for credentials, complaint in (
            (Credentials(ca_file=authority.file), "UNAUTHENTICATED"),
            (Credentials(ca_file=authority.file, token_file=wrong), "UNAUTHENTICATED"),
        ):
            with Client(address, PATIENT, credentials) as client:
                with pytest.raises(Refused) as refusal:
                    client.server_info()
                assert refusal.value.reason == complaint
        for credentials in (
            Credentials(ca_file=stranger.file, token_file=mine),  # of an impostor, say
            Credentials(token_file=mine),  # not encrypted, which on this machine is permitted
        ):
            with Client(address, PATIENT, credentials) as client, pytest.raises(Unreachable):
                client.server_info()
        assert daemon.serving()


def shared(directory: Path, name: str) -> Path:
    place = directory / name
    place.mkdir()
    return place


def test_with_authorities_of_clients_only_their_clients_get_in(directory: Path) -> None:
    authority, clients = Authority(directory), Authority(shared(directory, "clients"))
    settings = tls_settings(directory, authority)
    cert, key = clients.sign("engine", stem="engine")
    foreign_cert, foreign_key = authority.sign("engine", stem="foreign")
    with running_kvstowd(directory, tls_client_ca=clients.file, **settings) as daemon:
        address = address_of(daemon)
        known = Credentials(authority.file, cert, key)
        with Client(address, PATIENT, known) as client:
            assert client.server_info().boot_id
            assert client.administration.stats().pool_bytes
        for credentials in (
            Credentials(authority.file),
            Credentials(authority.file, foreign_cert, foreign_key),
        ):
            with Client(address, PATIENT, credentials) as client, pytest.raises(Unreachable):
                client.server_info()


def test_a_certificate_is_replaced_while_clients_are_connected(directory: Path) -> None:
    authority = Authority(directory)
    settings = tls_settings(directory, authority)
    with running_kvstowd(directory, insecure=True, **settings) as daemon:
        address = address_of(daemon)
        channel = grpc.secure_channel(
            address, grpc.ssl_channel_credentials(authority.file.read_bytes())
        )
        with channel:
            before = cache_pb2_grpc.CacheServiceStub(channel)
            boot_id = ask(before)
            old = serial_number(address, authority)

            authority.sign("localhost", "127.0.0.1")
            assert serial_number(address, authority) != old
            daemon.wait_line("read again")
            assert ask(before) == boot_id  # over the connection that it has
            with Client(address, PATIENT, Credentials(authority.file)) as after:
                assert after.server_info().boot_id == boot_id


def ask(stub: cache_pb2_grpc.CacheServiceStub) -> str:
    info: cache_pb2.GetServerInfoResponse = stub.GetServerInfo(
        cache_pb2.GetServerInfoRequest(), timeout=LIMIT_S
    )
    return info.boot_id


def test_a_pair_that_does_not_fit_changes_nothing(directory: Path) -> None:
    authority = Authority(directory)
    settings = tls_settings(directory, authority)
    with running_kvstowd(directory, insecure=True, **settings) as daemon:
        address = address_of(daemon)
        old = serial_number(address, authority)
        cert, key = authority.sign("localhost", "127.0.0.1", stem="fresh")
        cert.replace(settings["tls_cert"])  # half of a replacement is done
        assert serial_number(address, authority) == old
        line = daemon.wait_line("what was read before stays in force")
        assert "are no certificate and its key" in line["reason"]
        key.replace(settings["tls_key"])
        assert serial_number(address, authority) != old


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        ({"tls_cert": b"nonsense"}, "are no certificate and its key"),
        ({"tls_key": b""}, "are no certificate and its key"),
        ({"tls_cert": None}, "tls_cert: cannot read"),
        ({"tls_client_ca": b"nonsense"}, "tls_client_ca: "),
        ({"tls_client_ca": None}, "tls_client_ca: cannot read"),
    ],
)
def test_certificates_that_cannot_be_used_are_named(
    tmp_path: Path, broken: dict[str, bytes | None], complaint: str
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("localhost")
    files = {"tls_cert": cert, "tls_key": key, "tls_client_ca": authority.file}
    for name, content in broken.items():
        if content is None:
            files[name].unlink()
        else:
            files[name].write_bytes(content)
    with pytest.raises(CredentialError) as refusal:
        read_certificates(files["tls_cert"], files["tls_key"], files["tls_client_ca"])
    assert complaint in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).sign("localhost")
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    with pytest.raises(CredentialError, match="are no certificate and its key"):
        read_certificates(cert, key, None)


def test_an_engine_works_over_tls(directory: Path) -> None:
    authority = Authority(directory)
    settings = tls_settings(directory, authority)
    with (
        running_kvstowd(directory, insecure=True, **settings) as daemon,
        connected_engine(address_of(daemon), Credentials(authority.file)) as engine,
    ):
        engine.store([1], [0])
