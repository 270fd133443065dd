"""Bearer tokens: the file that lists them, and whose one is.

Tokens themselves are nowhere kept: the file has their hashes, and the hash of what a caller shows is compared. Pure but for
reading the file; may be called from any thread.
"""

import hashlib
import hmac
import stat
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from kvstow.server.mistakes import nearest_name
from kvstow.server.values import AbsolutePath

from .callers import Caller, Role
from .watched import CredentialError

MAX_TOKENS = 256
"""Each call is compared with all of them, so that the time it takes says nothing."""

_OF_NOTHING = hashlib.sha256().hexdigest()
"""What `sha256sum` says of a file of a token that was never filled; everybody has that token."""


class _Entry(BaseModel):
    """One token of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=64, pattern=r"^[!-~]+$")
    role: Role
    sha256: str = Field(pattern=r"^[0-9a-fA-F]{64}$")
    tenant: str = Field("", max_length=256)
    memory_path: AbsolutePath | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.role is Role.ENGINE and not self.tenant:
            raise ValueError("an engine has a tenant")
        if self.role is not Role.ENGINE and (self.tenant or self.memory_path):
            raise ValueError("only an engine has a tenant and a memory_path")
        if not self.tenant.isprintable():
            raise ValueError("tenant has characters that cannot be printed")
        if self.sha256.lower() == _OF_NOTHING:
            raise ValueError("sha256 is that of an empty token, which everybody has")
        return self


class _File(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    token: tuple[_Entry, ...] = Field(max_length=MAX_TOKENS)

    @model_validator(mode="after")
    def _differ(self) -> Self:
        names = [entry.name for entry in self.token]
        hashes = [entry.sha256.lower() for entry in self.token]
        for what, values in (("name", names), ("sha256", hashes)):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"{what} {twice[0]} stands there twice")
        return self


def read_tokens(path: Path, memory_path: Path | None) -> tuple[Caller, ...]:
    """Who has a token, as a file says; see docs/security.md.

    Args:
        memory_path: where the memory of engines has to lie whose token says nothing else.

    Raises:
        CredentialError: it cannot be read, others may write to it, or an entry is wrong.
    """
    try:
        if path.stat().st_mode & stat.S_IWOTH:
            raise CredentialError(f"tokens: others may write to {path}; chmod o-w it")
        found = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        mistakes = "; ".join(_line(mistake) for mistake in error.errors())
        raise CredentialError(f"tokens: {path}: {mistakes}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CredentialError(f"tokens: {path} is not TOML: {error}") from None
    except OSError as error:
        raise CredentialError(f"tokens: cannot read {path}: {error.strerror}") from None
    return tuple(_caller(entry, memory_path) for entry in found.token)


def whose(presented: str, callers: Sequence[Caller]) -> Caller | None:
    """Who has this token; None if nobody has. The time that it takes does not depend on the token."""
    digest = hashlib.sha256(presented.encode()).digest()
    found = None
    for caller in callers:
        if hmac.compare_digest(caller.digest, digest):
            found = caller
    return found


def _caller(entry: _Entry, memory_path: Path | None) -> Caller:
    place = entry.memory_path or memory_path
    digest = bytes.fromhex(entry.sha256)
    return Caller(entry.name, entry.role, entry.tenant, place, digest)


def _line(mistake: ErrorDetails) -> str:
    """A mistake with its place, entries counted from 1; what stands there is not repeated, it may be a secret."""
    where, said = mistake["loc"], mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "extra_forbidden":
        known = _File if len(where) == 1 else _Entry
        nearest = nearest_name(str(where[-1]), known.model_fields)
        said = "there is no such key" + (f" (did you mean {nearest}?)" if nearest else "")
    return ": ".join([*_place(where), said])


def _place(where: Sequence[int | str]) -> Iterator[str]:
    for part in where:
        match part:
            case int():
                yield f"number {part + 1}"
            case str():
                yield part
