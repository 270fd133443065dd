"""How single values are written in settings, besides sizes: addresses, paths, modes, times. Pure; anybody may call it."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, PlainValidator

LONGEST_S = 1e8
"""About three years. Nobody means more, and much more is beyond what the system's clock calls take."""

ADDRESS = r"^.+:\d{1,5}$"

Seconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
"""A span of time that is not zero."""


def _check_address(address: str) -> str:
    """Libraries wrap a port that is too high around, or fail in ways of their own."""
    host, _, port = address.rpartition(":")
    host.encode("idna")
    if address and int(port) > 65535:
        raise ValueError(f"there is no port {port}")
    return address


def _check_socket(path: Path) -> Path:
    if not path.name:
        raise ValueError("it has to name a file")
    str(path).encode()  # gRPC takes no other paths
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


Address = Annotated[str, AfterValidator(_check_address)]
"""host:port."""

SocketFile = Annotated[Path, AfterValidator(_check_socket)]
"""Where a Unix socket may be."""

AbsolutePath = Annotated[Path, AfterValidator(_check_absolute)]
"""A path that means the same wherever the daemon was started."""

FileMode = Annotated[Mode, PlainValidator(_read_mode)]
"""Permissions of a file."""
