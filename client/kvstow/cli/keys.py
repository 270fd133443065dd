"""Block keys and spaces as people name them."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from kvstow.v1 import admin_pb2

from .tables import model

STDIN = Path("-")
_SHOWN_BYTES = 16


def given_keys(words: Sequence[str], file: Path | None) -> list[bytes]:
    """The keys named by the command line: as arguments, or one a line in a file.

    Raises:
        typer.BadParameter: there is none, or something is no key.
    """
    numbered = [(f"key {number}", word) for number, word in enumerate(words)]
    if file is not None:
        numbered += [
            (f"line {number} of {file}", line.strip())
            for number, line in enumerate(_lines(file), start=1)
            if line.strip()
        ]
    if not numbered:
        raise typer.BadParameter("name keys, or a file of keys with --file (- for standard input)")
    return [_key(place, word) for place, word in numbered]


def chosen_space(spaces: Sequence[admin_pb2.Space], named: str) -> admin_pb2.Space:
    """The space of this id or else of this model; the only one there is if none is named.

    Raises:
        typer.BadParameter: there is none, or more than one.
    """
    if not named:
        found = list(spaces)
    else:
        found = [space for space in spaces if named == str(space.space_id)]
        found = found or [space for space in spaces if named == space.identity.model]
    if len(found) == 1:
        return found[0]
    if not spaces:
        raise typer.BadParameter(
            "the daemon has no space: nothing was stored since it was started"
        )
    listed = ", ".join(f"{space.space_id} ({model(space.identity)})" for space in found or spaces)
    what = "several spaces match" if found else f"no space is {named!r}"
    raise typer.BadParameter(
        f"{what}; name the id of one with --space, as `kvstow spaces` lists them: {listed}"
    )


def check_lengths(keys: Iterable[bytes], space: admin_pb2.Space) -> None:
    """Every key is as long as those of the space.

    Raises:
        typer.BadParameter: one is not.
    """
    wanted = space.identity.key_scheme.key_bytes
    for number, key in enumerate(keys):
        if len(key) != wanted:
            raise typer.BadParameter(
                f"key {number} has {len(key)} bytes, those of space {space.space_id} have {wanted}"
            )


def shown_key(key: bytes) -> str:
    """A key in a table, where a long one is cut; --json has the whole of it."""
    digits = key.hex()
    return f"{digits[: 2 * _SHOWN_BYTES]}..." if len(key) > _SHOWN_BYTES else digits


def _lines(file: Path) -> list[str]:
    try:
        if file == STDIN:
            return sys.stdin.read().splitlines()
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{file} is no text") from None


def _key(place: str, word: str) -> bytes:
    try:
        return bytes.fromhex(word.removeprefix("0x"))
    except ValueError:
        shown = f"{word[:20]}..." if len(word) > 20 else word
        raise typer.BadParameter(f"{place} is no hexadecimal number: {shown!r}") from None
