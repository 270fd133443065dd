"""Certificates of an authority of the tests' own."""

from datetime import datetime
from pathlib import Path

import trustme


class Authority:
    """Signs certificates and writes them to files.

    Args:
        directory: for its files.
    """

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self._directory = directory
        self.file = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.file))

    def sign(
        self, *names: str, stem: str = "daemon", not_after: datetime | None = None
    ) -> tuple[Path, Path]:
        """A new certificate, and its key, in files of that stem; an old pair is replaced."""
        signed = self._authority.issue_cert(*names, not_after=not_after)
        cert, key = (self._directory / f"{stem}.{kind}.pem" for kind in ("cert", "key"))
        self._write(cert, b"".join(blob.bytes() for blob in signed.cert_chain_pems))
        self._write(key, signed.private_key_pem.bytes())
        return cert, key

    def _write(self, path: Path, content: bytes) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(path)
