"""A daemon that asks for tokens, and callers of every role."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from kvstow.server.config import Config
from kvstow.server.rpc.access import Access
from kvstow.server.rpc.tokens import read_tokens
from kvstow.server.rpc.watched import Watched
from kvstow.v1 import admin_pb2_grpc, cache_pb2_grpc
from rpc.rig import Engine, Served, config, served
from rpc.showing import showing

ENGINE_A, ENGINE_B, READER, ADMINISTRATOR = (
    f"the-token-of-{name}" for name in ("engine-a", "engine-b", "reader", "administrator")
)
STRANGER = "a-token-of-nobody"


def entry(name: str, role: str, token: str, **more: str) -> str:
    """An entry of a file of tokens."""
    fields = {"name": name, "role": role, "sha256": hashlib.sha256(token.encode()).hexdigest()}
    return "\n".join(
        ["[[token]]", *(f"{key} = '{value}'" for key, value in (fields | more).items())]
    )


ENTRIES = (
    entry("engine-a", "engine", ENGINE_A, tenant="a"),
    entry("engine-b", "engine", ENGINE_B, tenant="b"),
    entry("reader", "read-only", READER),
    entry("administrator", "administrator", ADMINISTRATOR),
)


@dataclass
class Guarded:
    """A daemon that asks for tokens.

    Args:
        served: the daemon; its own stubs are an administrator's.
        file: of the tokens.
        bare: a channel that shows none.
    """

    served: Served
    file: Path
    bare: grpc.Channel

    def channel(self, token: str) -> grpc.Channel:
        """A channel that shows a token; empty for none."""
        return showing(self.bare, token) if token else self.bare

    def cache(self, token: str) -> cache_pb2_grpc.CacheServiceStub:
        return cache_pb2_grpc.CacheServiceStub(self.channel(token))

    def admin(self, token: str) -> admin_pb2_grpc.AdminServiceStub:
        return admin_pb2_grpc.AdminServiceStub(self.channel(token))

    def engine(self, token: str, **arguments: Any) -> Engine:
        """An engine that shows a token."""
        return Engine(self._as(token), **arguments)

    def write(self, entries: Sequence[str]) -> None:
        """Replace the tokens, and let the daemon see it."""
        write(self.file, entries)
        self.served.server.refresh()

    def _as(self, token: str) -> Served:
        found = self.served
        return Served(
            found.daemon,
            found.server,
            found.faults,
            found.socket,
            self.channel(token),
            found.observed,
            found.bugs,
            found.port,
            found.memory,
        )


def write(file: Path, entries: Sequence[str]) -> None:
    """Replace a file as careful people do: the new one comes in the place of the old one at once."""
    fresh = file.with_suffix(".new")
    fresh.write_text("\n".join(entries), encoding="utf-8")
    fresh.replace(file)


@contextmanager
def guarded(
    directory: Path,
    settings: Config | None = None,
    *,
    entries: Sequence[str] = ENTRIES,
    socket_without_token: bool = False,
    memory_path: Path | None = None,
    **options: Any,
) -> Iterator[Guarded]:
    """Serve a daemon that asks for tokens."""
    file = directory / "tokens.toml"
    write(file, entries)
    tokens = Watched([file], partial(read_tokens, file, memory_path))
    access = Access(tokens, socket_without_token, memory_path)
    settings = settings or config(max_sessions=8, max_spaces=8)
    with (
        served(settings, token=ADMINISTRATOR, access=access, **options) as daemon,
        grpc.insecure_channel(f"unix:{daemon.socket}") as bare,
    ):
        yield Guarded(daemon, file, bare)
