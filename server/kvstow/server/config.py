"""What a person can set: one model, read from a TOML file, the environment and the command line.

Decided here: names, defaults, ranges, and which settings contradict each other; all mistakes are reported at once. Not
decided here: whether the machine can give what is asked (the host pool and the sockets say that when they are made).
Read once by the main thread; the result never changes.
"""

import argparse
import os
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from .sizes import Bytes, Size

PREFIX = "KVSTOW_"
CLIENT_VARIABLES = frozenset({f"{PREFIX}TARGET"})
"""What has the prefix and is no setting of the daemon."""

LARGE_EXTENT_BYTES = 64 << 20
SMALL_POOL_EXTENTS = 8
"""A pool that is not given its extent size has at least so many extents, so that several slot sizes find a place."""

PAGE_BYTES = 4096
LONGEST_S = 1e8
"""About three years. Nobody means more, and much more is beyond what the system's clock calls take."""

_CLOSE = 0.8
"""How much alike names are of which one is a slip: what Kubernetes makes of a Service's name is less like a setting."""

Seconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]


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


Address = Annotated[str, AfterValidator(_check_address)]


class ConfigError(Exception):
    """The settings cannot be used; the message names every one that is wrong, one a line."""


def default_socket() -> Path:
    """The user's runtime directory if there is one, else the system's."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/run", "kvstow", "kvstow.sock")


class Config(BaseSettings):
    """kvstowd keeps KV-cache blocks in host memory for the inference engines of this node."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        extra="forbid",
        frozen=True,
    )

    config: Path | None = Field(
        None, description="TOML file with any of these settings, underscores in their names."
    )
    socket: Annotated[Path, AfterValidator(_check_socket)] = Field(
        default_factory=default_socket,
        description="Unix socket that engines connect to; only this user may.",
    )
    listen: Address | None = Field(
        None,
        description="host:port to listen on besides the socket. Needs `insecure`.",
        pattern=r"^.+:\d{1,5}$",
    )
    insecure: bool = Field(
        False,
        description="Accept that whoever reaches `listen` may read, overwrite and drop the cache, and do the same to"
        " every file on tmpfs that this user may write.",
    )
    pool_size: Size = Field(
        Bytes(1 << 30), gt=0, description="Size of the host pool, such as 64GiB."
    )
    pool_path: Path | None = Field(
        None,
        description="Directory on tmpfs or hugetlbfs that the pool is taken from; without it, anonymous memory.",
    )
    extent_size: Size | None = Field(
        None,
        gt=0,
        multiple_of=64,
        description="Piece of the pool that is given to one block size; no block for all ranks may be larger."
        " Without it 64MiB, or an eighth of a smaller pool.",
    )
    policy: Literal["lru", "arc"] = Field(
        "lru", description="Which block leaves a full pool: the least recently used, or adaptive."
    )
    admission: int = Field(
        1, ge=1, le=255, description="Store a block from its n-th offer on; 1 stores all."
    )
    copy_threads: int = Field(2, ge=1, le=256, description="Threads that copy.")
    piece_size: Size = Field(
        Bytes(4 << 20),
        ge=PAGE_BYTES,
        description="Largest piece that is copied before another transfer may get in between.",
    )
    max_sessions: int = Field(64, ge=1, le=4096, description="Engines at a time.")
    max_spaces: int = Field(64, ge=1, le=4096, description="Cache namespaces at a time.")
    max_keys: int = Field(8192, ge=1, le=1 << 20, description="Keys in one call.")
    max_transfers: int = Field(
        4096,
        ge=1,
        le=1 << 20,
        description="Transfers of a session that are unfinished or whose report is unacknowledged.",
    )
    max_leases: int = Field(4096, ge=1, le=1 << 20, description="Leases of a session.")
    max_events: int = Field(
        1024, ge=1, le=1 << 20, description="Events, besides reports, kept for a slow reader."
    )
    max_lease_s: Seconds = Field(300.0, description="Longest life of a lease, in seconds.")
    max_deadline_s: Seconds = Field(
        3600.0,
        description="After how long at the latest a transfer is reported overdue, in seconds.",
    )
    session_grace_s: Seconds = Field(
        10.0, description="How long a session lives without its stream, in seconds."
    )
    drain_grace_s: float = Field(
        30.0,
        ge=0,
        le=LONGEST_S,
        allow_inf_nan=False,
        description="How long running copies may take to end after SIGTERM, in seconds.",
    )
    metrics_listen: Address = Field(
        "127.0.0.1:9478",
        description="host:port of the Prometheus endpoint, empty for none. In a pod it is 0.0.0.0:9478.",
        pattern=r"^(.+:\d{1,5})?$",
    )
    health_listen: Address | None = Field(
        None,
        description="host:port where the gRPC health service alone answers, for the probes of Kubernetes. In a pod it"
        " is 0.0.0.0:9479.",
        pattern=r"^.+:\d{1,5}$",
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="Log lines for people or programs."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is not worth less than this is logged."
    )
    debug_service: bool = Field(
        False, description="Let clients hold, fail and delay copies. For tests and demonstrations."
    )

    @property
    def extent_bytes(self) -> int:
        """Size of the extents of the host pool."""
        if self.extent_size is not None:
            return self.extent_size
        share = self.pool_size // SMALL_POOL_EXTENTS // PAGE_BYTES * PAGE_BYTES
        return min(LARGE_EXTENT_BYTES, max(share, PAGE_BYTES))

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.listen is not None and not self.insecure:
            raise ValueError(
                "listen: TCP is neither encrypted nor authenticated; say insecure to accept that"
            )
        if self.extent_bytes > self.pool_size:
            raise ValueError(
                f"extent_size: {self.extent_bytes:d} bytes are more than the pool's {self.pool_size:d}"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The command line, which the library adds, goes before the environment, the environment before the file."""
        file = TomlConfigSettingsSource(settings_cls, toml_file=init_settings().get("config"))
        return init_settings, env_settings, file


def load(arguments: Sequence[str]) -> Config:
    """Read the settings.

    Args:
        arguments: the command line without the program's name. `--help`, `--version` and unknown flags end the process,
            as usual.

    Raises:
        ConfigError: something is wrong; names all of it.
    """
    path = _file_named_by(arguments)
    try:
        if path is not None and not path.is_file():
            raise ConfigError(f"config: {path} is not a file")
        source = CliSettingsSource[argparse.ArgumentParser](Config, root_parser=_parser())
        return CliApp.run(Config, list(arguments), cli_settings_source=source, config=path)
    except ValidationError as error:
        raise ConfigError("\n".join(_line(mistake) for mistake in error.errors())) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config: {path} is not TOML: {error}") from None
    except (OSError, SettingsError) as error:
        raise ConfigError(f"config: {error}") from None


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that no setting has the name of, each with the one that was probably meant.

    A variable that resembles none is left out: Kubernetes sets many for a Service that is named kvstow.
    """
    found = {}
    for name in environment:
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in CLIENT_VARIABLES:
            nearest = _nearest(upper.removeprefix(PREFIX))
            if nearest is not None and upper != f"{PREFIX}{nearest.upper()}":
                found[name] = f"{PREFIX}{nearest.upper()}"
    return found


def _nearest(name: str) -> str | None:
    """The setting that a name is, or is a slip of the pen for."""
    written = name.lower().replace("-", "_")
    return next(iter(get_close_matches(written, Config.model_fields, 1, _CLOSE)), None)


def _parser() -> argparse.ArgumentParser:
    """What the command line takes besides the settings."""
    parser = argparse.ArgumentParser("kvstowd", description=Config.__doc__, allow_abbrev=False)
    parser.add_argument(
        "--version",
        action="version",
        version=f"kvstowd {version('kvstow')}",
        help="show the version and exit",
    )
    return parser


def _file_named_by(arguments: Sequence[str]) -> Path | None:
    """The file must be known before the sources are read that may name it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", type=Path)
    try:
        found, _ = parser.parse_known_args(list(arguments))
    except argparse.ArgumentError:
        return None  # the full parser says what is wrong
    named = found.config or os.environ.get(f"{PREFIX}CONFIG")
    return Path(named) if named else None


def _line(mistake: ErrorDetails) -> str:
    where = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        nearest = _nearest(where)
        hint = "" if nearest is None else f"; did you mean {nearest}?"
        return f"{where}: there is no such setting{hint}"
    what = mistake["msg"].removeprefix("Value error, ")
    return f"{where}: {what}, not {mistake['input']!r}" if where else what
