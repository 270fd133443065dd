"""What a person can set: one model of all settings.

Decided here: names, defaults, ranges, and which settings contradict each other. Not decided here: where they are read from
and how mistakes are told (`command_line`), and whether the machine can give what is asked (the host pool, the sockets and
the certificates say that when they are made). Read once by the main thread; the result never changes.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .mistakes import Contradiction, validated
from .sizes import Bytes, Size
from .values import (
    LONGEST_S,
    AbsolutePath,
    Address,
    AddressIfAny,
    AnyPath,
    FileMode,
    Mode,
    Seconds,
    SocketFile,
    TenantNames,
    Tenants,
)

PREFIX = "KVSTOW_"

LARGE_EXTENT_BYTES = 64 << 20
SMALL_POOL_EXTENTS = 8
"""A pool that is not given its extent size has at least so many extents, so that several slot sizes find a place."""

PAGE_BYTES = 4096


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

    config: AnyPath | None = Field(
        None, description="TOML file with any of these settings, underscores in their names."
    )
    socket: SocketFile = Field(
        default_factory=default_socket, description="Unix socket that engines connect to."
    )
    socket_mode: FileMode = Field(
        Mode(0o600),
        description="Who may connect to it, as octal permissions: 0600 its owner, 0660 its group as well.",
    )
    socket_owner: str | None = Field(
        None, description="User who owns the socket, by name or number; needs the right to chown."
    )
    socket_group: str | None = Field(
        None, description="Group of the socket, by name or number, for a mode such as 0660."
    )
    socket_shared_directory: bool = Field(
        False,
        description="Accept a directory of the socket that others may write to, as an emptyDir of Kubernetes is: they can"
        " put a socket of theirs in its place.",
    )
    listen: Address | None = Field(
        None,
        description="host:port to listen on besides the socket. Needs TLS, and `tls_client_ca` or `tokens`, or `insecure`.",
    )
    insecure: bool = Field(
        False,
        description="Serve `listen` without TLS, or to clients that nothing identifies: whoever reaches it may read,"
        " overwrite and drop the cache, and do the same to every file on tmpfs that this user may write.",
    )
    tls_cert: AnyPath | None = Field(
        None,
        description="PEM file with the certificate chain of `listen`. Read again when it changes.",
    )
    tls_key: AnyPath | None = Field(None, description="PEM file with its private key.")
    tls_client_ca: AnyPath | None = Field(
        None,
        description="PEM file with the authorities of client certificates; with it, clients without one are refused.",
    )
    tokens: AnyPath | None = Field(
        None,
        description="TOML file of bearer tokens, see docs/security.md; with it, calls without one are refused. Read"
        " again when it changes.",
    )
    socket_without_token: bool = Field(
        False,
        description="With `tokens`: whoever may connect to the Unix socket needs none, and may do everything.",
    )
    memory_path: AbsolutePath | None = Field(
        None,
        description="Directory that engine memory has to lie in; without it, any file on tmpfs that this user may write.",
    )
    zero_freed: TenantNames = Field(
        Tenants(""),
        description="Tenants whose freed slots are zeroed, separated by commas, or * for all; see docs/security.md.",
    )
    pool_size: Size = Field(
        Bytes(1 << 30), gt=0, description="Size of the host pool, such as 64GiB."
    )
    pool_path: AnyPath | None = Field(
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
    cuda: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether engines on GPUs are served: if there is a driver that sees some, always (or the start fails"
        " and says why), or never.",
    )
    pin: bool = Field(
        True,
        description="Page-lock the pool for the GPUs, without which copies to and from them are slow. Where there are"
        " none it is not done.",
    )
    cuda_watchdog_s: Seconds = Field(
        30.0,
        description="How long a call of the CUDA driver may take before its GPU counts as stuck, in seconds.",
    )
    cuda_copies: Literal["dma", "kernel"] = Field(
        "dma",
        description="What copies between GPUs and the pool: the copy engines of the GPU, or a kernel, which takes multiprocessors"
        " from the engine. The kernel needs `pin`.",
    )
    max_sessions: int = Field(64, ge=1, le=4096, description="Engines at a time.")
    max_spaces: int = Field(64, ge=1, le=4096, description="Cache namespaces at a time.")
    max_tenant_sessions: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="Engines of one tenant at a time; without it, all of them.",
    )
    max_tenant_spaces: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="Cache namespaces of one tenant at a time; without it, all of them.",
    )
    max_keys: int = Field(
        4096,
        ge=1,
        le=1 << 20,
        description="Keys in one call, which keeps others waiting for some 2 µs for each.",
    )
    max_transfers: int = Field(
        1024,
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
    metrics_listen: AddressIfAny = Field(
        "127.0.0.1:9478",
        description="host:port of the Prometheus endpoint, empty for none. In a pod it is 0.0.0.0:9478.",
    )
    metrics_tls: bool = Field(
        False,
        description="Serve metrics over TLS, with the certificate and the client authorities of `listen`.",
    )
    health_listen: Address | None = Field(
        None,
        description="host:port where the gRPC health service alone answers, for the probes of Kubernetes. In a pod it"
        " is 0.0.0.0:9479.",
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

    @model_validator(mode="wrap")
    @classmethod
    def _name_every_mistake(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return validated(values, handler, contradictions)

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


def contradictions(config: Config) -> Iterator[Contradiction]:
    """Yield the settings that do not go together, the one to change first, each with what to do."""
    if config.extent_bytes > config.pool_size and config.extent_size is None:
        yield (
            ("pool_size",),
            f"{config.pool_size:d} bytes are less than the smallest extent, {PAGE_BYTES}",
        )
    elif config.extent_bytes > config.pool_size:
        yield (
            ("extent_size", "pool_size"),
            f"{Bytes(config.extent_bytes).exact()} are more than the pool's {config.pool_size.exact()}",
        )
    if config.cuda_copies == "kernel" and not config.pin:
        reason = "a kernel reaches page-locked memory only: set pin to true, or cuda_copies to dma"
        yield ("cuda_copies", "pin"), reason
    if (config.tls_cert is None) != (config.tls_key is None):
        yield ("tls_cert", "tls_key"), "a certificate and its key go together; set both or none"
    yield from _open_doors(config)


def _open_doors(config: Config) -> Iterator[Contradiction]:
    """What would let anybody in from the network, or promises that it does not and cannot keep that."""
    encrypted = config.tls_cert is not None
    known = config.tls_client_ca is not None or config.tokens is not None
    if config.listen is not None and not config.insecure and not encrypted:
        yield (
            ("listen", "insecure", "tls_cert"),
            "TCP needs TLS: set tls_cert and tls_key, or say insecure to do without",
        )
    elif config.listen is not None and not config.insecure and not known:
        yield (
            ("listen", "insecure", "tls_client_ca", "tokens"),
            "whoever reaches it could do everything: set tls_client_ca or tokens, or say insecure to accept that",
        )
    for name, wanted in (
        ("tls_client_ca", config.tls_client_ca),
        ("metrics_tls", config.metrics_tls),
    ):
        if wanted and not encrypted:
            yield (name, "tls_cert"), "it needs a certificate: set tls_cert and tls_key"
