"""The listings as tables. Pure: a table goes in, as it is, where it shall be shown."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvstow.v1 import admin_pb2, cache_pb2, identity_pb2, reset_pb2

from .listing import NAME, NUMBER, PROSE, WORD, Listing
from .rows import KINDS, STATES, TRANSFER_STATES
from .stuck import advice
from .words import duration, ratio, size


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


def pool_table(stats: admin_pb2.GetStatsResponse) -> Listing:
    """How the host pool is used; slots that are to be zeroed are shown where there are some."""
    zeroing = any(slots.zeroing_count for slots in stats.slots)
    listing = Listing(
        f"host pool: {stats.free_extents} extents free",
        {
            "slot size": NUMBER,
            "extents": NUMBER,
            "slots": NUMBER,
            "free": NUMBER,
            "evictable": NUMBER,
            "held": NUMBER,
            "writing": NUMBER,
            "quarantined": NUMBER,
            **({"zeroing": NUMBER} if zeroing else {}),
        },
        spare=("extents", "slots"),
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
            *((slots.zeroing_count,) if zeroing else ()),
        )
        listing.add_row(size(slots.slot_bytes), *map(str, counts))
    return listing


def spaces_table(spaces: Iterable[admin_pb2.Space]) -> Listing:
    """The spaces with what they hold."""
    listing = Listing(
        "spaces",
        {
            "space": NUMBER,
            "model": NAME,
            "generation": NUMBER,
            "sessions": NUMBER,
            "ready": NUMBER,
            "writing": NUMBER,
            "hits": NUMBER,
            "stored": NUMBER,
            "loaded": NUMBER,
            "evicted": NUMBER,
        },
        spare=("writing", "sessions", "stored", "generation"),
    )
    for space in spaces:
        counters = space.counters
        asked = counters.hit_count + counters.pending_count + counters.missed_count
        listing.add_row(
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
    return listing


def sessions_table(sessions: Iterable[admin_pb2.Session]) -> Listing:
    """The living sessions."""
    listing = Listing(
        "sessions",
        {
            "session": NUMBER,
            "name": NAME,
            "space": NUMBER,
            "age": NUMBER,
            "stream": WORD,
            "ranks": NUMBER,
            "transfers": NUMBER,
            "leases": NUMBER,
            "held": NUMBER,
            "events": NUMBER,
        },
        spare=("events", "leases", "age"),
    )
    for session in sessions:
        listing.add_row(
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
    return listing


def transfers_table(listed: admin_pb2.ListTransfersResponse) -> Listing:
    """The oldest transfers that have not ended."""
    total = listed.total_count
    shown = f"the {len(listed.transfers)} oldest of {total}" if total else "none"
    listing = Listing(
        f"transfers: {shown}",
        {
            "session": NUMBER,
            "transfer": NUMBER,
            "kind": WORD,
            "state": PROSE,
            "age": NUMBER,
            "blocks": NUMBER,
            "space": NUMBER,
            "generation": NUMBER,
        },
        spare=("generation", "space"),
    )
    for transfer in listed.transfers:
        listing.add_row(
            str(transfer.session_id),
            str(transfer.transfer_id),
            KINDS.get(transfer.kind, "unknown"),
            _transfer_state(transfer),
            duration(transfer.age_s),
            str(transfer.block_count),
            str(transfer.space_id),
            str(transfer.generation),
        )
    return listing


def stuck_table(listed: admin_pb2.ListTransfersResponse) -> RenderableType:
    """The transfers past their deadline, and what to do."""
    listing = Listing(
        f"transfers past their deadline: {len(listed.transfers)} of {listed.total_count}",
        {
            "session": NUMBER,
            "engine": NAME,
            "transfer": NUMBER,
            "kind": WORD,
            "state": PROSE,
            "age": NUMBER,
            "blocks": NUMBER,
            "ranks": PROSE,
        },
        spare=("blocks", "kind", "session"),
    )
    for transfer in listed.transfers:
        listing.add_row(
            str(transfer.session_id),
            transfer.session_name or "(ended)",
            str(transfer.transfer_id),
            KINDS.get(transfer.kind, "unknown"),
            _transfer_state(transfer),
            duration(transfer.age_s),
            str(transfer.block_count),
            ", ".join(map(str, transfer.unfinished_ranks)),
        )
    return Group(listing, *map(_to_do, listed.transfers))


def settings_table(settings: Sequence[admin_pb2.Setting], *, every: bool) -> Listing:
    """The settings in force; those that were set, or all of them."""
    shown = [found for found in settings if every or found.source != "default"]
    rest = len(settings) - len(shown)
    listing = Listing(
        f"settings{f': {rest} more have their defaults' if rest else ''}",
        {
            "setting": WORD,
            "value": PROSE,
            "from": WORD,
        },
    )
    for found in shown:
        listing.add_row(found.name, found.value, found.source)
    return listing


def resets_table(results: Mapping[int, reset_pb2.ResetResult]) -> Listing:
    """What a reset did to each space, by id."""
    listing = Listing(
        "reset",
        {
            "space": NUMBER,
            "generation": NUMBER,
            "dropped": NUMBER,
            "ended": NUMBER,
            "abandoned stores": NUMBER,
            "abandoned loads": NUMBER,
            "drained": WORD,
        },
        spare=("ended", "generation"),
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
        listing.add_row(*map(str, counts), "yes" if result.drained else "not yet")
    return listing


def model(identity: identity_pb2.Identity) -> str:
    """The model, and what else makes its space another one, if anything does."""
    further = [word for word in (identity.weights_version, identity.tenant) if word]
    return f"{identity.model} ({', '.join(further)})" if further else identity.model


def _gpu(gpu: cache_pb2.Gpu) -> str:
    trouble = f", {gpu.trouble}" if gpu.trouble else ""
    return f"{gpu.name} ({gpu.uuid}{trouble})"


def _to_do(transfer: admin_pb2.Transfer) -> Text:
    number = f"transfer {transfer.transfer_id} of session {transfer.session_id}"
    return Text(f"to do for {number}: {advice(transfer)}")


def _transfer_state(transfer: admin_pb2.Transfer) -> str:
    words = [TRANSFER_STATES.get(transfer.state, "unknown")]
    words += ["abandoned"] if transfer.abandoned else []
    words += ["overdue"] if transfer.overdue else []
    return ", ".join(words)
