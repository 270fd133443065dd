"""How single values are written in settings, besides sizes: addresses, paths, modes, times. Pure; anybody may call it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator

LONGEST_S = 1e8
"""About three years. Nobody means more, and much more is beyond what the system's clock calls take."""

_ADDRESS = re.compile(r"(?!unix(?:-abstract)?:)([^\s\[\]:/]+|\[[^\s\[\]/]+\]):(\d{1,5})", re.ASCII)
"""No host is named so that gRPC would take it for a Unix socket."""

Seconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
"""A span of time that is not zero."""


def _check_address(address: str) -> str:
    """Libraries wrap a port that is too high around, fail in ways of their own, or listen on something that is no TCP."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ValueError("an address is host:port, with brackets around an IPv6 address")
    host, port = found.groups()
    host.encode("idna")
    if int(port) > 65535:
        raise ValueError(f"there is no port {port}")
    return address


def _check_address_if_any(address: str) -> str:
    return _check_address(address) if address else ""


def _check_path(path: Path) -> Path:
    """The system takes no zero bytes, gRPC and what shows the settings nothing but UTF-8."""
    if b"\0" in str(path).encode():
        raise ValueError("a path has no zero bytes")
    return path


def _check_socket(path: Path) -> Path:
    if not path.name:
        raise ValueError("it has to name a file")
    return path


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("the path has to be absolute")
    return path


class Mode(int):
    """Permissions of a file, shown as `chmod` takes them."""

    def __str__(self) -> str:
        return f"{self:04o}"


def _read_mode(value: object) -> Mode:
    """Octal digits, also where TOML gives an integer (`0o660`), which is one already."""
    match value:
        case int():
            mode = int(value)
        case str():
            mode = int(value, 8) if re.fullmatch("[0-7]+", value) else -1
        case _:
            mode = -1
    if not 0 <= mode <= 0o777 or mode & 0o600 != 0o600:
        raise ValueError("a mode is three octal digits that let the owner read and write, as 0660")
    return Mode(mode)


class Tenants(str):
    """Names of tenants, separated by commas; * stands for all."""

    def covers(self, tenant: str) -> bool:
        """Whether a tenant is one of them."""
        return not {"*", tenant}.isdisjoint(self.split(",")) if self else False


def _read_tenants(value: object) -> Tenants:
    """An empty name is a slip: who has no name, only * covers."""
    match value:
        case str():
            names = [name.strip() for name in value.split(",")] if value else []
        case _:
            names = [""]
    if not all(name.isprintable() and name for name in names):
        raise ValueError("tenants are written with commas between them, as a,b")
    return Tenants(",".join(names))


class Setting(NamedTuple):
    """A setting as it is in force.

    Args:
        value: as a flag or a variable would give it; empty if it is not set.
        source: `flag`, `environment`, `file` or `default`.
    """

    name: str
    value: str
    source: str


Settings: TypeAlias = Sequence[Setting]
"""All of them."""

Address = Annotated[str, AfterValidator(_check_address)]
"""host:port."""

AddressIfAny = Annotated[str, AfterValidator(_check_address_if_any)]
"""host:port, or empty."""

AnyPath = Annotated[Path, AfterValidator(_check_path)]
"""A path that can be opened and shown."""

SocketFile = Annotated[AnyPath, AfterValidator(_check_socket)]
"""Where a Unix socket may be."""

AbsolutePath = Annotated[AnyPath, AfterValidator(_check_absolute)]
"""A path that means the same wherever the daemon was started."""

TenantNames = Annotated[Tenants, PlainValidator(_read_tenants)]
"""Some tenants, all, or none."""

FileMode = Annotated[Mode, PlainValidator(_read_mode)]
"""Permissions of a file."""
