"""How a client shows who it is, and knows that the daemon is who it should be.

Over TCP: TLS if there is a file of authorities, with a certificate of the client's own if the daemon asks for one. Over both
kinds of target: a bearer token, which goes with every call. The file of the token is read again when it changes; those of
certificates are read once, when the connection is made.
"""

import os
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from .target import channel_target, is_local

VARIABLES = {
    "ca_file": "KVSTOW_CA_FILE",
    "cert_file": "KVSTOW_CERT_FILE",
    "key_file": "KVSTOW_KEY_FILE",
    "token_file": "KVSTOW_TOKEN_FILE",
}
"""Where `Credentials.from_environment` looks."""

_NAME_A_CA = (
    "name the file of the daemon's authorities "
    f"(`kvstow --ca-file`, {VARIABLES['ca_file']} or Credentials(ca_file=...))"
)
AUTHORIZATION_KEY = "authorization"
LOOK_S = 1.0
"""How often the file of a token is looked at, at most."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files that a client needs where the daemon asks for more than a connection.

    Args:
        ca_file: PEM file of the authorities that may have signed the daemon's certificate; with it, TCP is encrypted.
        cert_file, key_file: PEM files of the client's own certificate and its key.
        token_file: file that holds the bearer token and nothing else.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    token_file: Path | None = None

    @classmethod
    def from_environment(cls) -> "Credentials":
        """Those that the variables KVSTOW_CA_FILE, KVSTOW_CERT_FILE, KVSTOW_KEY_FILE and KVSTOW_TOKEN_FILE name."""
        return cls(**{name: _path(os.environ, variable) for name, variable in VARIABLES.items()})

    def check(self, target: str) -> None:
        """Refuse what would not be secure, or not work.

        Raises:
            ValueError: the files do not go together, or a token would travel unencrypted to another machine.
        """
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("a certificate and its key go together; give both files or none")
        if self.cert_file is not None and self.ca_file is None:
            raise ValueError(f"a client's certificate needs TLS: {_NAME_A_CA}")
        if self.token_file is not None and self.ca_file is None and not is_local(target):
            raise ValueError(f"a token would travel to {target} unencrypted: {_NAME_A_CA}")


class Token:
    """The bearer token of a file; may be used from any thread.

    Args:
        path: the file.

    Raises:
        ValueError: it cannot be read, or holds no token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _signature(path)
        self._look_at = time.monotonic() + LOOK_S
        self._metadata = _read_metadata(path)

    def metadata(self) -> Sequence[tuple[str, str]]:
        """What goes with a call; of a file that became wrong, what it held before."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._look_again()
        return self._metadata

    def _look_again(self) -> None:
        found = _signature(self._path)
        if found != self._seen:
            self._seen = found
            try:
                self._metadata = _read_metadata(self._path)
            except ValueError:
                return


def open_channel(
    target: str, credentials: Credentials, options: Sequence[tuple[str, int]]
) -> grpc.Channel:
    """The channel to a daemon, encrypted if it goes over TCP and there are authorities.

    Raises:
        ValueError: a file cannot be read, or holds no certificate.
    """
    if credentials.ca_file is None or target.startswith("unix:"):
        return grpc.insecure_channel(channel_target(target), options)
    cert, key = credentials.cert_file, credentials.key_file
    pem = [_read(path) for path in (credentials.ca_file, key, cert) if path is not None]
    _check_certificates(credentials.ca_file, cert, key)
    secrets = grpc.ssl_channel_credentials(*pem)
    return grpc.secure_channel(channel_target(target), secrets, options)


def _check_certificates(ca_file: Path, cert_file: Path | None, key_file: Path | None) -> None:
    """Find out what gRPC would not say: that it cannot use what was read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(ca_file)
    except OSError as error:
        raise ValueError(f"{ca_file} holds no certificates of authorities: {error}") from None
    if cert_file is None or key_file is None:
        return
    try:
        context.load_cert_chain(cert_file, key_file, password="")  # nobody is asked for one
    except OSError as error:
        raise ValueError(
            f"{cert_file} and {key_file} are no certificate and its key: {error}"
        ) from None


def _read_metadata(path: Path) -> Sequence[tuple[str, str]]:
    token = _read(path).decode("ascii", "replace").strip()
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        raise ValueError(f"{path} holds no token")
    return ((AUTHORIZATION_KEY, f"Bearer {token}"),)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None


def _signature(path: Path) -> tuple[int, ...]:
    """What differs when a file was written or replaced; empty if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _path(environment: Mapping[str, str], variable: str) -> Path | None:
    named = environment.get(variable)
    return Path(named) if named else None
