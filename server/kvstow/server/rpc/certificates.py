"""The certificates of a TCP port, in the form that gRPC takes. Called at the start and for new connections."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from .watched import CredentialError, Watched

Certificates = Watched[grpc.ServerCertificateConfiguration]
"""Those in force."""


def read_certificates(
    cert: Path, key: Path, client_ca: Path | None
) -> grpc.ServerCertificateConfiguration:
    """The certificate chain, its key, and the authorities of clients, in the form that gRPC takes.

    Raises:
        CredentialError: a file cannot be read, is not PEM, or certificate and key are no pair.
    """
    chain, private = _bytes(cert, "tls_cert"), _bytes(key, "tls_key")
    roots = None if client_ca is None else _bytes(client_ca, "tls_client_ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        with _in_memory(chain) as chain_path, _in_memory(private) as key_path:
            context.load_cert_chain(chain_path, key_path, password="")
    except (OSError, ValueError) as error:
        raise CredentialError(
            f"tls_cert: {cert} and {key} are no certificate and its key: {error}"
        ) from None
    try:
        if roots is not None:
            context.load_verify_locations(cadata=roots.decode("ascii"))
    except (OSError, ValueError) as error:
        raise CredentialError(f"tls_client_ca: {client_ca}: {error}") from None
    return grpc.ssl_server_certificate_configuration([(private, chain)], roots)


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
        return given

    return grpc.dynamic_ssl_server_credentials(
        given,
        newer,  # type: ignore[arg-type]  # its types do not say that None stands for no change
        known_clients,
    )


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
