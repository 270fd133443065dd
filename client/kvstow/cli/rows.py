"""What the daemon lists, as plain values: the same for tables and for `--json`.

The names are part of what scripts rely on. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2, reset_pb2, transfer_pb2

from .stuck import advice

Row: TypeAlias = dict[str, object]

STATES: Mapping[int, str] = {
    cache_pb2.SERVER_STATE_STARTING: "starting",
    cache_pb2.SERVER_STATE_READY: "ready",
    cache_pb2.SERVER_STATE_DRAINING: "draining",
}
ROLES: Mapping[int, str] = {
    cache_pb2.ROLE_ENGINE: "engine",
    cache_pb2.ROLE_READ_ONLY: "read-only",
    cache_pb2.ROLE_ADMINISTRATOR: "administrator",
}
KINDS: Mapping[int, str] = {
    transfer_pb2.TRANSFER_KIND_STORE: "store",
    transfer_pb2.TRANSFER_KIND_LOAD: "load",
}
TRANSFER_STATES: Mapping[int, str] = {
    transfer_pb2.TRANSFER_STATE_QUEUED: "queued",
    transfer_pb2.TRANSFER_STATE_RUNNING: "running",
}


def server_row(info: cache_pb2.GetServerInfoResponse) -> Row:
    """Who the daemon is."""
    return {
        "version": info.version,
        "boot_id": info.boot_id,
        "state": STATES.get(info.state, "unknown"),
        "uptime_s": info.uptime_s,
        "policy": info.policy,
        "copy_kernel": info.copy_kernel,
        "pool_bytes": info.limits.pool_bytes,
        "extent_bytes": info.limits.extent_bytes,
        "gpus": [
            {"uuid": gpu.uuid, "name": gpu.name, "trouble": gpu.trouble} for gpu in info.gpus
        ],
        "cuda_off": info.cuda_off,
        "pinned": info.pinned,
        "role": ROLES.get(info.role, "unknown"),
    }


def slots_row(slots: admin_pb2.SlotStats) -> Row:
    """The slots of one size."""
    return {
        "slot_bytes": slots.slot_bytes,
        "extents": slots.extents,
        "slot_count": slots.slot_count,
        "free_count": slots.free_count,
        "evictable_count": slots.evictable_count,
        "held_count": slots.held_count,
        "writing_count": slots.writing_count,
        "quarantined_count": slots.quarantined_count,
        "zeroing_count": slots.zeroing_count,
    }


def space_row(space: admin_pb2.Space) -> Row:
    """A space, what it holds, and what happened in it."""
    counters = space.counters
    return {
        "space_id": space.space_id,
        "identity": _identity(space.identity),
        "generation": space.generation,
        "draining_generations": list(space.draining_generations),
        "session_count": space.session_count,
        "ready_count": space.ready_count,
        "writing_count": space.writing_count,
        "lookups": counters.lookups,
        "hit_count": counters.hit_count,
        "pending_count": counters.pending_count,
        "missed_count": counters.missed_count,
        "stored_count": counters.stored_count,
        "loaded_count": counters.loaded_count,
        "evicted_count": counters.evicted_count,
        "dropped_count": counters.dropped_count,
        "resets": counters.resets,
    }


def session_row(session: admin_pb2.Session) -> Row:
    """A living session."""
    return {
        "session_id": session.session_id,
        "name": session.name,
        "space_id": session.space_id,
        "age_s": session.age_s,
        "streaming": session.streaming,
        "attached_ranks": list(session.attached_ranks),
        "world_size": session.world_size,
        "transfer_count": session.transfer_count,
        "lease_count": session.lease_count,
        "held_count": session.held_count,
        "unacknowledged_count": session.unacknowledged_count,
    }


def transfer_row(transfer: admin_pb2.Transfer) -> Row:
    """A transfer that has not ended."""
    return {
        "session_id": transfer.session_id,
        "transfer_id": transfer.transfer_id,
        "kind": KINDS.get(transfer.kind, "unknown"),
        "state": TRANSFER_STATES.get(transfer.state, "unknown"),
        "abandoned": transfer.abandoned,
        "overdue": transfer.overdue,
        "age_s": transfer.age_s,
        "block_count": transfer.block_count,
        "space_id": transfer.space_id,
        "generation": transfer.generation,
        "session_name": transfer.session_name,
        "unfinished_ranks": list(transfer.unfinished_ranks),
    }


def stuck_row(transfer: admin_pb2.Transfer) -> Row:
    """A transfer past its deadline, and what to do."""
    return transfer_row(transfer) | {"advice": advice(transfer)}


def settings_row(settings: Iterable[admin_pb2.Setting]) -> Row:
    """The settings in force, by name."""
    return {found.name: {"value": found.value, "source": found.source} for found in settings}


def reset_row(space_id: int, result: reset_pb2.ResetResult) -> Row:
    """What a reset did to a space."""
    return {
        "space_id": space_id,
        "generation": result.generation,
        "dropped_count": result.dropped_count,
        "ended_count": result.ended_count,
        "abandoned_stores": result.abandoned_stores,
        "abandoned_loads": result.abandoned_loads,
        "drained": result.drained,
    }


def _identity(identity: identity_pb2.Identity) -> Row:
    layout, scheme = identity.layout, identity.key_scheme
    return {
        "tenant": identity.tenant,
        "model": identity.model,
        "weights_version": identity.weights_version,
        "dtype": layout.dtype,
        "block_tokens": layout.block_tokens,
        "world_size": layout.world_size,
        "order": layout.order,
        "group_block_bytes": [block_bytes(group, layout.world_size) for group in layout.groups],
        "hash_name": scheme.hash_name,
        "key_bytes": scheme.key_bytes,
        "fingerprint": scheme.fingerprint.hex(),
    }


def block_bytes(group: identity_pb2.Group, world_size: int) -> int:
    """Bytes of a block of the group, of all ranks."""
    return sum(group.segment_bytes) * (1 if group.replicated else world_size)
