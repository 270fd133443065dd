"""The listings as tables. Pure: a table goes in, as it is, where it shall be shown."""

from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2, reset_pb2

from .rows import KINDS, STATES, TRANSFER_STATES
from .stuck import advice
from .words import duration, ratio, size


def _table(title: str, *columns: str) -> Table:
    """A table; a column whose name begins with `>` holds numbers."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        name = column.removeprefix(">")
        table.add_column(name, justify="right" if name != column else "left")
    return table


def server_table(target: str, info: cache_pb2.GetServerInfoResponse) -> Table:
    """Who the daemon is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in (
        ("target", target),
        ("state", STATES.get(info.state, "unknown")),
        ("version", info.version),
        ("boot id", info.boot_id),
        ("uptime", duration(info.uptime_s)),
        ("policy", info.policy),
        ("copy kernel", info.copy_kernel),
        ("GPUs", ", ".join(map(_gpu, info.gpus)) or info.cuda_off or "none"),
        ("pool", f"{size(info.limits.pool_bytes)} in extents of {size(info.limits.extent_bytes)}"),
    ):
        table.add_row(name, value)
    return table


def pool_table(stats: admin_pb2.GetStatsResponse) -> Table:
    """How the host pool is used."""
    table = _table(
        f"host pool: {stats.free_extents} extents free",
        ">slot size",
        ">extents",
        ">slots",
        ">free",
        ">evictable",
        ">held",
        ">writing",
        ">quarantined",
    )
    for slots in stats.slots:
        counts = (
            slots.extents,
            slots.slot_count,
            slots.free_count,
            slots.evictable_count,
            slots.held_count,
            slots.writing_count,
            slots.quarantined_count,
        )
        table.add_row(size(slots.slot_bytes), *map(str, counts))
    return table


def spaces_table(spaces: Iterable[admin_pb2.Space]) -> Table:
    """The spaces with what they hold."""
    table = _table(
        "spaces",
        ">space",
        "model",
        ">generation",
        ">sessions",
        ">ready",
        ">writing",
        ">hits",
        ">stored",
        ">loaded",
        ">evicted",
    )
    for space in spaces:
        counters = space.counters
        asked = counters.hit_count + counters.pending_count + counters.missed_count
        table.add_row(
            str(space.space_id),
            model(space.identity),
            f"{space.generation}{' (draining)' if space.draining_generations else ''}",
            str(space.session_count),
            str(space.ready_count),
            str(space.writing_count),
            ratio(counters.hit_count, asked),
            str(counters.stored_count),
            str(counters.loaded_count),
            str(counters.evicted_count),
        )
    return table


def sessions_table(sessions: Iterable[admin_pb2.Session]) -> Table:
    """The living sessions."""
    table = _table(
        "sessions",
        ">session",
        "name",
        ">space",
        ">age",
        "stream",
        ">ranks",
        ">transfers",
        ">leases",
        ">held",
        ">events",
    )
    for session in sessions:
        table.add_row(
            str(session.session_id),
            session.name,
            str(session.space_id),
            duration(session.age_s),
            "open" if session.streaming else "lost",
            f"{len(session.attached_ranks)}/{session.world_size}",
            str(session.transfer_count),
            str(session.lease_count),
            str(session.held_count),
            str(session.unacknowledged_count),
        )
    return table


def transfers_table(listed: admin_pb2.ListTransfersResponse) -> Table:
    """The oldest transfers that have not ended."""
    shown = f"the {len(listed.transfers)} oldest of {listed.total_count}"
    table = _table(
        f"transfers: {shown}",
        ">session",
        ">transfer",
        "kind",
        "state",
        ">age",
        ">blocks",
        ">space",
        ">generation",
    )
    for transfer in listed.transfers:
        table.add_row(
            str(transfer.session_id),
            str(transfer.transfer_id),
            KINDS.get(transfer.kind, "unknown"),
            _transfer_state(transfer),
            duration(transfer.age_s),
            str(transfer.block_count),
            str(transfer.space_id),
            str(transfer.generation),
        )
    return table


def stuck_table(listed: admin_pb2.ListTransfersResponse) -> Table:
    """The transfers past their deadline, and what to do."""
    table = _table(
        f"transfers past their deadline: {len(listed.transfers)} of {listed.total_count}",
        ">session",
        "engine",
        ">transfer",
        "kind",
        "state",
        ">age",
        ">blocks",
        "ranks",
        "to do",
    )
    for transfer in listed.transfers:
        table.add_row(
            str(transfer.session_id),
            transfer.session_name or "(ended)",
            str(transfer.transfer_id),
            KINDS.get(transfer.kind, "unknown"),
            _transfer_state(transfer),
            duration(transfer.age_s),
            str(transfer.block_count),
            ",".join(map(str, transfer.unfinished_ranks)),
            advice(transfer),
        )
    return table


def settings_table(settings: Sequence[admin_pb2.Setting], *, every: bool) -> Table:
    """The settings in force; those that were set, or all of them."""
    shown = [found for found in settings if every or found.source != "default"]
    rest = len(settings) - len(shown)
    table = _table(
        f"settings{f': {rest} more have their defaults' if rest else ''}",
        "setting",
        "value",
        "from",
    )
    for found in shown:
        table.add_row(found.name, found.value, found.source)
    return table


def resets_table(results: Mapping[int, reset_pb2.ResetResult]) -> Table:
    """What a reset did to each space, by id."""
    table = _table(
        "reset",
        ">space",
        ">generation",
        ">dropped",
        ">ended",
        ">abandoned stores",
        ">abandoned loads",
        "drained",
    )
    for space_id, result in results.items():
        counts = (
            space_id,
            result.generation,
            result.dropped_count,
            result.ended_count,
            result.abandoned_stores,
            result.abandoned_loads,
        )
        table.add_row(*map(str, counts), "yes" if result.drained else "not yet")
    return table


def model(identity: identity_pb2.Identity) -> str:
    """The model, and what else makes its space another one, if anything does."""
    further = [word for word in (identity.weights_version, identity.tenant) if word]
    return f"{identity.model} ({', '.join(further)})" if further else identity.model


def _gpu(gpu: cache_pb2.Gpu) -> str:
    trouble = f", {gpu.trouble}" if gpu.trouble else ""
    return f"{gpu.name} ({gpu.uuid}{trouble})"


def _transfer_state(transfer: admin_pb2.Transfer) -> str:
    words = [TRANSFER_STATES.get(transfer.state, "unknown")]
    words += ["abandoned"] if transfer.abandoned else []
    words += ["overdue"] if transfer.overdue else []
    return ", ".join(words)
