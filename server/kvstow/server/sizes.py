"""How sizes are written in settings, and how they are shown. Pure; anybody may call it."""

import re
from typing import Annotated

from pydantic import BeforeValidator, ByteSize

_WRITTEN = re.compile(r"\d*\.?\d+\s*([kmgtpe]i?)?b?", re.IGNORECASE | re.ASCII)


class Bytes(ByteSize):
    """A number of bytes that is shown as people write it."""

    def __str__(self) -> str:
        return self.human_readable().replace(".0", "")


def _check_written(value: object) -> object:
    """The library stops reading where it does not understand, and knows no `Gi`, which Kubernetes writes."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str) or not _WRITTEN.fullmatch(value.strip()):
        raise ValueError("a size is written 64GiB, 64Gi, 64GB or as a number of bytes")
    written = value.strip()
    return f"{written}B" if written.lower().endswith("i") else written


Size = Annotated[Bytes, BeforeValidator(_check_written)]
"""A setting that is a size."""
