"""Why certificates prevented a connection: told from gRPC's words, and from what this side brought along. Pure.

gRPC has no code for it. Its words are those of the versions from 1.71 to 1.85; others are left as they are. Of a daemon that
does not accept this side it says only that the connection was closed.
"""

from dataclasses import dataclass

from .credentials import Credentials
from .errors import TlsFailed

_NAMES = ("Hostname Verification Check failed", "is not in peer certificate")
_EXPIRED = ("certificate has expired", "certificate is not yet valid")
_NOT_MADE = "failed to connect to all addresses"
_CLOSED = ("Socket closed", "Connection reset")

_CA_FILE = "`kvstow --ca-file`, KVSTOW_CA_FILE or Credentials(ca_file=...)"
_CERT_FILE = (
    "`kvstow --cert-file ... --key-file ...`, KVSTOW_CERT_FILE with KVSTOW_KEY_FILE or"
    " Credentials(cert_file=..., key_file=...)"
)


@dataclass(frozen=True, slots=True)
class Handshakes:
    """What one client says of connections that were not made.

    Args:
        target: of the client.
        credentials: that it brings along.
    """

    target: str
    credentials: Credentials

    def failed(self, words: str) -> TlsFailed | None:
        """What gRPC's words say of certificates; None if it is nothing.

        Args:
            words: the details of the call that failed.
        """
        if _NOT_MADE not in words or self.target.startswith("unix:"):
            return None
        for marks, explain in (
            (_NAMES, self._other_names),
            (_EXPIRED, self._expired),
            (("CERTIFICATE_VERIFY_FAILED",), self._unknown_authority),
            (("WRONG_VERSION_NUMBER",), self._no_tls),
            (_CLOSED, self._closed),
        ):
            if any(mark in words for mark in marks):
                return explain()
        return None

    def _other_names(self) -> TlsFailed:
        host = self.target.rpartition(":")[0]
        return TlsFailed(
            f"the certificate of the daemon at {self.target} is for other names than {host}",
            f"name the daemon as its certificate does, or give it a tls_cert that names {host}, too",
        )

    def _expired(self) -> TlsFailed:
        return TlsFailed(
            f"the certificate of the daemon at {self.target}, or of its authority, has expired or is not valid yet",
            "renew tls_cert of the daemon, and see whether the clocks are right",
        )

    def _unknown_authority(self) -> TlsFailed:
        return TlsFailed(
            f"the certificate of the daemon at {self.target} is signed by none of the authorities in"
            f" {self.credentials.ca_file}",
            f"name the file of its authorities: {_CA_FILE}",
        )

    def _no_tls(self) -> TlsFailed:
        return TlsFailed(
            f"what listens at {self.target} speaks no TLS",
            f"give the daemon a certificate (tls_cert and tls_key), or name no CA file: {_CA_FILE}",
        )

    def _closed(self) -> TlsFailed:
        if self.credentials.ca_file is None:
            return TlsFailed(
                f"{self.target} closed the unencrypted connection at once, as a daemon with TLS does",
                f"name the file of its authorities: {_CA_FILE}",
            )
        if self.credentials.cert_file is None:
            return TlsFailed(
                f"{self.target} closed the connection at once, as a daemon does that asks clients for certificates",
                f"name yours: {_CERT_FILE}",
            )
        return TlsFailed(
            f"{self.target} closed the connection at once, as a daemon does that does not accept the client's"
            f" certificate, {self.credentials.cert_file}",
            "see whether it has expired, and whether its authority is one of the daemon's tls_client_ca",
        )
