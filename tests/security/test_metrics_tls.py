"""The metrics over TLS: who reads them, and that nobody keeps others from reading."""

import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import pytest

from security.authority import Authority
from support.kvstowd import Kvstowd, running_kvstowd
from support.waiting import DEADLINE_S, wait_for

LIMIT_S = DEADLINE_S


def settings(authority: Authority) -> dict[str, Any]:
    cert, key = authority.sign("localhost", "127.0.0.1")
    return {"metrics_tls": True, "tls_cert": cert, "tls_key": key}


def scrape(url: str, context: ssl.SSLContext) -> str:
    with urllib.request.urlopen(url, timeout=LIMIT_S, context=context) as answer:
        text: str = answer.read().decode()
        return text


def url_of(daemon: Kvstowd) -> str:
    url: str = daemon.wait_line("metrics served")["url"]
    assert url.startswith("https://127.0.0.1:")
    return url


def test_metrics_are_encrypted_if_that_is_asked_for(directory: Path) -> None:
    authority = Authority(directory)
    with running_kvstowd(directory, **settings(authority)) as daemon:
        url = url_of(daemon)
        known = ssl.create_default_context(cafile=str(authority.file))
        assert "kvstow_" in scrape(url, known)
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            scrape(url, ssl.create_default_context())
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(url.replace("https:", "http:"), timeout=LIMIT_S)


def test_with_authorities_of_clients_only_their_clients_read_them(directory: Path) -> None:
    authority = Authority(directory)
    files = settings(authority)
    cert, key = authority.sign("prometheus", stem="prometheus")
    with running_kvstowd(directory, tls_client_ca=authority.file, **files) as daemon:
        stranger = ssl.create_default_context(cafile=str(authority.file))
        with pytest.raises((urllib.error.URLError, OSError)):
            scrape(url_of(daemon), stranger)
        known = ssl.create_default_context(cafile=str(authority.file))
        known.load_cert_chain(cert, key)
        assert "kvstow_" in scrape(url_of(daemon), known)


def test_who_does_not_go_on_with_the_handshake_keeps_nobody_out(directory: Path) -> None:
    authority = Authority(directory)
    known = ssl.create_default_context(cafile=str(authority.file))
    with running_kvstowd(directory, **settings(authority)) as daemon:
        url = url_of(daemon)
        port = int(url.partition("//")[2].partition("/")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), LIMIT_S):
            assert "kvstow_" in scrape(url, known)


def test_the_certificate_of_the_metrics_is_replaced_as_well(directory: Path) -> None:
    old, new = Authority(directory), Authority(make(directory / "new"))
    files = settings(old)
    with running_kvstowd(directory, **files) as daemon:
        url = url_of(daemon)
        assert scrape(url, ssl.create_default_context(cafile=str(old.file)))
        cert, key = new.sign("localhost", "127.0.0.1")
        key.replace(files["tls_key"])
        cert.replace(files["tls_cert"])
        known = ssl.create_default_context(cafile=str(new.file))
        wait_for(lambda: can_scrape(url, known), "the new certificate")


def test_the_metrics_get_what_was_read_and_not_what_became_of_the_files(directory: Path) -> None:
    """A connection may find a good pair, and the main thread, a moment later, a bad one."""
    old, new = Authority(directory), Authority(make(directory / "new"))
    files = settings(old)
    listening = {"listen": "127.0.0.1:0", "insecure": True}
    with running_kvstowd(directory, **listening, **files) as daemon:
        url = url_of(daemon)
        port = int(daemon.wait_line("listening")["port"])
        cert, key = new.sign("localhost", "127.0.0.1")
        key.replace(files["tls_key"])
        cert.replace(files["tls_cert"])
        with grpc.secure_channel(
            f"127.0.0.1:{port}", grpc.ssl_channel_credentials(new.file.read_bytes())
        ) as channel:
            grpc.channel_ready_future(channel).result(LIMIT_S)
        files["tls_cert"].write_bytes(b"nonsense")
        daemon.wait_line("what was read before stays in force")
        known = ssl.create_default_context(cafile=str(new.file))
        wait_for(lambda: can_scrape(url, known), "the new certificate")
        assert daemon.serving()


def make(directory: Path) -> Path:
    directory.mkdir()
    return directory


def can_scrape(url: str, context: ssl.SSLContext) -> bool:
    try:
        return bool(scrape(url, context))
    except urllib.error.URLError:
        return False
