"""What one tenant may take, so that others find something left."""

import grpc
import pytest

from kvstow.v1 import cache_pb2
from rpc.rig import config, identity, refused
from security.rig import ENGINE_A, ENGINE_B, guarded
from support.memory import shared_directory

KEYS = [1, 2, 3]


def test_a_tenant_has_no_more_sessions_than_it_may() -> None:
    settings = config(max_sessions=8, max_tenant_sessions=2)
    with shared_directory() as directory, guarded(directory, settings) as daemon:
        first = daemon.engine(ENGINE_A)
        daemon.engine(ENGINE_A)
        request = cache_pb2.OpenSessionRequest(identity=identity())
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache(ENGINE_A).OpenSession(request)
        assert refused(refusal.value)[:2] == ("RESOURCE_EXHAUSTED", "TOO_MANY_SESSIONS")
        daemon.engine(ENGINE_B)
        closing = cache_pb2.CloseSessionRequest(session_id=first.session_id)
        daemon.cache(ENGINE_A).CloseSession(closing)
        daemon.cache(ENGINE_A).OpenSession(request)


def test_a_tenant_has_no_more_spaces_than_it_may() -> None:
    settings = config(max_sessions=8, max_spaces=8, max_tenant_spaces=2)
    with shared_directory() as directory, guarded(directory, settings) as daemon:
        first = daemon.engine(ENGINE_A, model="first")
        first.watch()
        first.store(1, KEYS)
        daemon.engine(ENGINE_A, model="second")
        request = cache_pb2.OpenSessionRequest(identity=identity("third"))
        before = daemon.served.books()
        with pytest.raises(grpc.RpcError) as refusal:
            daemon.cache(ENGINE_A).OpenSession(request)
        code, reason, facts = refused(refusal.value)
        assert (code, reason, facts["limit"]) == ("RESOURCE_EXHAUSTED", "TOO_MANY_SPACES", "2")
        assert "max_tenant_spaces" in facts["next_step"]
        assert daemon.served.books() == before
        daemon.engine(ENGINE_B, model="third")
        daemon.engine(ENGINE_A, model="first")
