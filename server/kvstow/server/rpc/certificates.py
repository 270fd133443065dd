"""The certificates of TCP ports, and in which form libraries take them. Called at the start and for new connections."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from .watched import CredentialError, Watched


@dataclass(frozen=True, slots=True)
class Pem:
    """What was read of the files.

    Args:
        chain: the certificate, then its intermediates.
        key: its private key.
        client_roots: authorities of client certificates; None: clients need none.
    """

    chain: bytes
    key: bytes = field(repr=False)
    client_roots: bytes | None

    def load_into(self, context: ssl.SSLContext) -> None:
        """Serve new connections of `context` with the certificate.

        Raises:
            OSError, ValueError: certificate and key are no pair.
        """
        with _in_memory(self.chain) as chain, _in_memory(self.key) as key:
            context.load_cert_chain(chain, key, password="")


Certificates = Watched[Pem]
"""Those in force."""


def read_certificates(cert: Path, key: Path, client_ca: Path | None) -> Pem:
    """The certificate chain, its key, and the authorities of clients.

    Raises:
        CredentialError: a file cannot be read, is not PEM, or certificate and key are no pair.
    """
    roots = None if client_ca is None else _bytes(client_ca, "tls_client_ca")
    pem = Pem(_bytes(cert, "tls_cert"), _bytes(key, "tls_key"), roots)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        pem.load_into(context)
    except (OSError, ValueError) as error:
        raise CredentialError(
            f"tls_cert: {cert} and {key} are no certificate and its key: {error}"
        ) from None
    try:
        if roots is not None:
            context.load_verify_locations(cadata=roots.decode("ascii"))
    except (OSError, ValueError) as error:
        raise CredentialError(f"tls_client_ca: {client_ca}: {error}") from None
    return pem


def port_credentials(certificates: Certificates, known_clients: bool) -> grpc.ServerCredentials:
    """Credentials of a port; each new connection is served with the certificate that the files hold then.

    Args:
        known_clients: refuse clients without a certificate of the authorities.
    """
    given = certificates.content

    def newer() -> grpc.ServerCertificateConfiguration | None:
        nonlocal given
        certificates.refresh()
        if certificates.content is given:
            return None
        given = certificates.content
        return _for_grpc(given)

    return grpc.dynamic_ssl_server_credentials(
        _for_grpc(given),
        newer,  # type: ignore[arg-type]  # its types do not say that None stands for no change
        known_clients,
    )


def _for_grpc(pem: Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.chain)], pem.client_roots)


def _bytes(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CredentialError(f"{setting}: cannot read {path}: {error.strerror}") from None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """The path of a file that exists in memory alone, for a library that takes nothing else."""
    descriptor = os.memfd_create("kvstow-pem")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
