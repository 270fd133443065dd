"""Watching the health: it keeps no thread, and not without end what is kept in memory."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from kvstow.server.rpc.server import CONNECTIONS_PER_SESSION
from kvstow.v1 import cache_pb2
from rpc.rig import refused
from rpc.showing import showing
from security.rig import READER, Guarded, guarded
from support.waiting import DEADLINE_S, wait_for

LIMIT_S = 10 * DEADLINE_S
"""Of a stream: longer than it takes to open all of them."""

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
WORKERS = SESSIONS = 8
WATCHES = WORKERS + CONNECTIONS_PER_SESSION * SESSIONS
APART = [("grpc.use_local_subchannel_pool", 1)]
"""A connection of its own for each channel; one alone may not have so many calls open."""


@pytest.fixture
def daemon(directory: Path) -> Iterator[Guarded]:
    with guarded(directory, worker_count=WORKERS) as daemon:
        yield daemon


def watch(channel: grpc.Channel) -> Any:
    """Watch, with a reader's token."""
    stub = health_pb2_grpc.HealthStub(showing(channel, READER))
    return stub.Watch(health_pb2.HealthCheckRequest(), timeout=LIMIT_S)


def test_watching_keeps_no_thread(daemon: Guarded) -> None:
    streams = []
    for _ in range(40):  # more than the caller's share
        streams.append(watch(daemon.bare))
        assert next(streams[-1]).status == NOT_SERVING
    request = cache_pb2.GetServerInfoRequest()
    assert daemon.cache(READER).GetServerInfo(request, timeout=LIMIT_S).boot_id
    assert all(stream.is_active() for stream in streams)
    for stream in streams:
        stream.cancel()


def test_as_many_watch_as_may_connect_and_one_that_ends_makes_room(daemon: Guarded) -> None:
    with ExitStack() as stack:
        target = f"unix:{daemon.served.socket}"
        channels = [stack.enter_context(grpc.insecure_channel(target, APART)) for _ in range(8)]
        streams = []
        for channel, _ in zip(cycle(channels), range(WATCHES), strict=False):
            streams.append(watch(channel))
            assert next(streams[-1]).status == NOT_SERVING
        with pytest.raises(grpc.RpcError) as refusal:
            next(watch(channels[0]))
        assert refused(refusal.value)[0] == "RESOURCE_EXHAUSTED"
        streams[0].cancel()
        wait_for(lambda: is_let_in(channels[0]), "room for another")


def is_let_in(channel: grpc.Channel) -> bool:
    """Whether one more may watch."""
    stream = watch(channel)
    try:
        return bool(next(stream).status == NOT_SERVING)
    except grpc.RpcError:
        return False
    finally:
        stream.cancel()
