"""How sizes are written in settings, and how they are shown. Pure; anybody may call it."""

import re
from typing import Annotated

from pydantic import BeforeValidator, ByteSize

_WRITTEN = re.compile(r"(\d{0,20}\.?\d{1,20})\s*([kmgtpe]i?)?b?", re.IGNORECASE | re.ASCII)
_AMBIGUOUS = re.compile(r"\d*\.?\d+\s*[kmgtpe]", re.ASCII)
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Bytes(ByteSize):
    """A number of bytes that is shown as people write it."""

    def __str__(self) -> str:
        return self.human_readable().replace(".0", "")

    def exact(self) -> str:
        """As `Size` reads it back, to the byte."""
        for power in range(len(_UNITS), 0, -1):
            if self and not self % (1 << 10 * power):
                return f"{self >> 10 * power}{_UNITS[power - 1]}"
        return f"{int(self)}"


def _check_written(value: object) -> object:
    """The library stops reading where it does not understand, and knows no `Gi`, which Kubernetes writes."""
    if isinstance(value, int):
        return value
    if not isinstance(value, str) or not _WRITTEN.fullmatch(value.strip()):
        raise ValueError("a size is written 64GiB, 64Gi, 64GB or as a number of bytes")
    written = value.strip()
    if _AMBIGUOUS.fullmatch(written):
        raise ValueError(_both_meanings(written))
    return f"{written}B" if written.lower().endswith("i") else written


def _both_meanings(written: str) -> str:
    """Docker's `10g` are powers of 1024, and Kubernetes' `m` are thousandths of a byte."""
    number, letter = written[:-1].strip(), written[-1].upper()
    power = "KMGTPE".index(letter) + 1
    binary, decimal = (int(float(number) * base**power) for base in (1024, 1000))
    return (
        f"some read it as {number}{letter}iB ({binary} bytes), some as {number}{letter}B"
        f" ({decimal} bytes): write the one you mean"
    )


Size = Annotated[Bytes, BeforeValidator(_check_written)]
"""A setting that is a size."""
