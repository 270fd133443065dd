"""The core's values become replies.

The counterpart of `convert`: pure and total, may be called from any thread.
"""

from collections.abc import Sequence

from kvstow.server.core import events
from kvstow.server.core.history import Recollection
from kvstow.server.core.requests import Limits, OpenedSession, ServerInfo, ServerState
from kvstow.server.core.types import (
    BlockFailure,
    Fate,
    Identity,
    LookupResult,
    ResetResult,
    StoreStatus,
    TransferKind,
    TransferPlan,
    TransferState,
)
from kvstow.server.daemon.misses import ExplainedMiss
from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2, reset_pb2, transfer_pb2

from .callers import Role

KINDS = {
    TransferKind.STORE: transfer_pb2.TRANSFER_KIND_STORE,
    TransferKind.LOAD: transfer_pb2.TRANSFER_KIND_LOAD,
}
STATES = {
    TransferState.QUEUED: transfer_pb2.TRANSFER_STATE_QUEUED,
    TransferState.RUNNING: transfer_pb2.TRANSFER_STATE_RUNNING,
    TransferState.DONE: transfer_pb2.TRANSFER_STATE_DONE,
    TransferState.FAILED: transfer_pb2.TRANSFER_STATE_FAILED,
    TransferState.ABANDONED: transfer_pb2.TRANSFER_STATE_ABANDONED,
}
FATES = {
    Fate.READY: admin_pb2.KEY_FATE_READY,
    Fate.WRITING: admin_pb2.KEY_FATE_WRITING,
    Fate.EVICTED: admin_pb2.KEY_FATE_EVICTED,
    Fate.RECLAIMED: admin_pb2.KEY_FATE_RECLAIMED,
    Fate.RESET: admin_pb2.KEY_FATE_RESET,
    Fate.LOAD_FAILED: admin_pb2.KEY_FATE_LOAD_FAILED,
    Fate.STORE_FAILED: admin_pb2.KEY_FATE_STORE_FAILED,
    Fate.STORE_ABANDONED: admin_pb2.KEY_FATE_STORE_ABANDONED,
    Fate.NO_SPACE: admin_pb2.KEY_FATE_NO_SPACE,
    Fate.NOT_ADMITTED: admin_pb2.KEY_FATE_NOT_ADMITTED,
    Fate.UNKNOWN: admin_pb2.KEY_FATE_UNKNOWN,
}
ROLES = {
    Role.ENGINE: cache_pb2.ROLE_ENGINE,
    Role.READ_ONLY: cache_pb2.ROLE_READ_ONLY,
    Role.ADMINISTRATOR: cache_pb2.ROLE_ADMINISTRATOR,
}
_SERVER_STATES = {
    ServerState.STARTING: cache_pb2.SERVER_STATE_STARTING,
    ServerState.READY: cache_pb2.SERVER_STATE_READY,
    ServerState.DRAINING: cache_pb2.SERVER_STATE_DRAINING,
}


def server_info(
    info: ServerInfo, unix_time_s: float, role: Role
) -> cache_pb2.GetServerInfoResponse:
    """Who the server is, what its wall clock says, and what the caller may do."""
    return cache_pb2.GetServerInfoResponse(
        version=info.version,
        boot_id=info.boot_id,
        state=_SERVER_STATES[info.state],
        limits=_limits(info.limits),
        policy=info.policy,
        uptime_s=info.uptime_s,
        copy_kernel=info.copy_kernel,
        gpus=[
            cache_pb2.Gpu(uuid=gpu.uuid, name=gpu.name, trouble=gpu.trouble) for gpu in info.gpus
        ],
        cuda_off=info.cuda_off,
        pinned=info.pinned,
        unix_time_s=unix_time_s,
        role=ROLES[role],
    )


def opened_session(opened: OpenedSession, boot_id: str) -> cache_pb2.OpenSessionResponse:
    """The new session."""
    return cache_pb2.OpenSessionResponse(
        session_id=opened.session,
        boot_id=boot_id,
        space_id=opened.space,
        generation=opened.generation,
        grace_s=opened.grace_s,
        slot_bytes=opened.slot_bytes,
    )


def lookup(result: LookupResult, ttl_s: float) -> cache_pb2.LookupResponse:
    """What was found; `ttl_s` is the life that was asked for the lease, if one was taken."""
    hits = [
        cache_pb2.GroupHits(
            hit_count=group.hit_count, pending_count=group.pending_count, states=group.states
        )
        for group in result.groups
    ]
    if result.lease is None:
        return cache_pb2.LookupResponse(generation=result.generation, groups=hits)
    return cache_pb2.LookupResponse(
        generation=result.generation, groups=hits, lease_id=result.lease, lease_ttl_s=ttl_s
    )


def store(plan: TransferPlan) -> cache_pb2.StoreResponse:
    """What became of the offered blocks."""
    return cache_pb2.StoreResponse(
        statuses=plan.statuses,
        accepted_count=plan.statuses.count(StoreStatus.ACCEPTED.value),
    )


def reset(result: ResetResult) -> reset_pb2.ResetResult:
    """What a reset did."""
    return reset_pb2.ResetResult(
        generation=result.generation,
        dropped_count=result.dropped_count,
        ended_count=result.ended_count,
        abandoned_stores=result.abandoned_stores,
        abandoned_loads=result.abandoned_loads,
        drained=result.drained,
    )


def identity(named: Identity) -> identity_pb2.Identity:
    """What names a space."""
    layout, scheme = named.layout, named.key_scheme
    return identity_pb2.Identity(
        tenant=named.tenant,
        model=named.model,
        weights_version=named.weights_version,
        layout=identity_pb2.Layout(
            dtype=layout.dtype,
            block_tokens=layout.block_tokens,
            world_size=layout.world_size,
            order=layout.order,
            groups=[
                identity_pb2.Group(segment_bytes=group.segment_bytes, replicated=group.replicated)
                for group in layout.groups
            ],
        ),
        key_scheme=identity_pb2.KeyScheme(
            hash_name=scheme.hash_name,
            key_bytes=scheme.key_bytes,
            fingerprint=scheme.fingerprint,
        ),
    )


def event(sequence: int, happened: events.Event) -> cache_pb2.Event:
    """One event of a stream."""
    match happened:
        case events.TransferEnded():
            return cache_pb2.Event(sequence=sequence, transfer_ended=_ended(happened))
        case events.TransferOverdue(transfer=transfer, kind=kind, age_s=age_s):
            overdue = cache_pb2.TransferOverdue(
                transfer_id=transfer, kind=KINDS[kind], age_s=age_s
            )
            return cache_pb2.Event(sequence=sequence, transfer_overdue=overdue)
        case events.SpaceReset(generation=generation):
            reset = cache_pb2.SpaceReset(generation=generation)
            return cache_pb2.Event(sequence=sequence, space_reset=reset)
        case events.ResetDrained(generation=generation):
            drained = cache_pb2.ResetDrained(generation=generation)
            return cache_pb2.Event(sequence=sequence, reset_drained=drained)
        case events.LeaseExpired(lease=lease, request=request):
            expired = cache_pb2.LeaseExpired(lease_id=lease, request=request)
            return cache_pb2.Event(sequence=sequence, lease_expired=expired)
        case events.Draining():
            return cache_pb2.Event(sequence=sequence, draining=cache_pb2.Draining())
        case events.Resync(lost_count=lost_count):
            resync = cache_pb2.Resync(lost_count=lost_count)
            return cache_pb2.Event(sequence=sequence, resync=resync)


def _limits(limits: Limits) -> cache_pb2.Limits:
    return cache_pb2.Limits(
        max_keys_per_call=limits.max_keys_per_call,
        max_lease_ttl_s=limits.max_lease_ttl_s,
        max_deadline_s=limits.max_deadline_s,
        max_transfers_per_session=limits.max_transfers_per_session,
        extent_bytes=limits.extent_bytes,
        pool_bytes=limits.pool_bytes,
    )


def _ended(report: events.TransferEnded) -> cache_pb2.TransferEnded:
    return cache_pb2.TransferEnded(
        transfer_id=report.transfer,
        kind=KINDS[report.kind],
        state=STATES[report.state],
        failures=_failures(report.failures),
    )


def _failures(failures: Sequence[BlockFailure]) -> list[transfer_pb2.BlockFailures]:
    """Failed blocks by rank and reason, so that thousands of them are a few arrays."""
    positions: dict[tuple[int, str], list[int]] = {}
    for failure in failures:
        positions.setdefault((failure.rank, failure.reason), []).append(failure.position)
    return [
        transfer_pb2.BlockFailures(rank=rank, reason=reason, positions=sorted(found))
        for (rank, reason), found in sorted(positions.items())
    ]


def explained(recollection: Recollection) -> admin_pb2.ExplainKeysResponse:
    """What became of keys; the search for it is made here."""
    found = recollection.explain()
    forgotten_at = recollection.forgotten_at
    return admin_pb2.ExplainKeysResponse(
        generation=recollection.generation,
        fates=[FATES[each.fate] for each in found],
        ages_s=[each.age_s for each in found],
        generations=[each.generation for each in found],
        complete=forgotten_at is None,
        reaches_back_s=0.0 if forgotten_at is None else recollection.now - forgotten_at,
    )


def miss(found: ExplainedMiss) -> admin_pb2.Miss:
    """A key at which lookups ended, and why."""
    return admin_pb2.Miss(
        key=found.miss.key,
        group=found.miss.group,
        hit_count=found.miss.hit_count,
        key_count=found.miss.key_count,
        age_s=found.age_s,
        lookup_count=found.miss.lookup_count,
        fate=FATES[found.fate.fate],
        fate_age_s=found.fate.age_s,
        generation=found.fate.generation,
    )
