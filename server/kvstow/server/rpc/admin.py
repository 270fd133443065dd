"""The administrator's service: listings from one snapshot each, resets, the check of the books.

Methods run on the server's threads, without a lock.
"""

from collections.abc import Sequence

import grpc

from kvstow.server.core.snapshot import LeaseView, SessionView, SpaceView, TableView, TransferView
from kvstow.server.core.spaces import SpaceCounters
from kvstow.server.core.types import SpaceId, TransferKind
from kvstow.server.daemon import Daemon
from kvstow.server.values import Settings
from kvstow.v1 import admin_pb2, admin_pb2_grpc

from . import convert, replies
from .access import homeless, visible
from .replies import KINDS, STATES, identity
from .servicer import Waits

DEFAULT_LIMIT = 1000
"""Rows of a listing whose length a client does not say."""


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """See kvstow/v1/admin.proto for what each method promises.

    Args:
        daemon: the daemon.
        waits: shared by all services of the server.
        settings: those in force, to be shown.
    """

    def __init__(self, daemon: Daemon, waits: Waits, settings: Settings) -> None:
        self._daemon = daemon
        self._waits = waits
        self._settings = settings

    def ListSpaces(
        self, request: admin_pb2.ListSpacesRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ListSpacesResponse:
        spaces = sorted(visible(self._daemon.snapshot()).spaces, key=lambda space: space.id)
        return admin_pb2.ListSpacesResponse(spaces=[_space(space) for space in spaces])

    def ListSessions(
        self, request: admin_pb2.ListSessionsRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ListSessionsResponse:
        snapshot = visible(self._daemon.snapshot())
        world_sizes = {space.id: space.identity.layout.world_size for space in snapshot.spaces}
        sessions = sorted(snapshot.sessions, key=lambda session: session.id)
        return admin_pb2.ListSessionsResponse(
            sessions=[_session(session, world_sizes[session.space]) for session in sessions]
        )

    def ListTransfers(
        self, request: admin_pb2.ListTransfersRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ListTransfersResponse:
        everything = self._daemon.snapshot()
        snapshot = visible(everything)
        transfers = sorted(
            (found for found in snapshot.transfers if found.overdue or not request.overdue_only),
            key=lambda found: -found.age_s,
        )
        unseen = [] if snapshot is everything else homeless(everything)
        unlisted = sum(found.overdue or not request.overdue_only for found in unseen)
        listed = transfers[: request.limit or DEFAULT_LIMIT]
        names = {session.id: session.name for session in snapshot.sessions}
        ranks = self._daemon.unfinished_ranks([(found.session, found.id) for found in listed])
        return admin_pb2.ListTransfersResponse(
            transfers=[
                _transfer(found, names.get(found.session, ""), unfinished)
                for found, unfinished in zip(listed, ranks, strict=True)
            ],
            total_count=len(transfers) + unlisted,
        )

    def ListLeases(
        self, request: admin_pb2.ListLeasesRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ListLeasesResponse:
        leases = sorted(
            visible(self._daemon.snapshot()).leases, key=lambda lease: lease.remaining_s
        )
        return admin_pb2.ListLeasesResponse(
            leases=[_lease(lease) for lease in leases[: request.limit or DEFAULT_LIMIT]],
            total_count=len(leases),
        )

    def GetStats(
        self, request: admin_pb2.GetStatsRequest, context: grpc.ServicerContext
    ) -> admin_pb2.GetStatsResponse:
        snapshot = self._daemon.snapshot()
        tables = sorted(snapshot.tables, key=lambda table: table.slot_bytes)
        copied = self._daemon.copied_bytes()
        return admin_pb2.GetStatsResponse(
            pool_bytes=snapshot.extents * snapshot.extent_bytes,
            extent_bytes=snapshot.extent_bytes,
            free_extents=snapshot.unused_extents,
            slots=[_slots(table) for table in tables],
            stored_bytes=copied[TransferKind.STORE],
            loaded_bytes=copied[TransferKind.LOAD],
        )

    def GetConfiguration(
        self, request: admin_pb2.GetConfigurationRequest, context: grpc.ServicerContext
    ) -> admin_pb2.GetConfigurationResponse:
        return admin_pb2.GetConfigurationResponse(
            settings=[admin_pb2.Setting(**setting._asdict()) for setting in self._settings]
        )

    def ExplainKeys(
        self, request: admin_pb2.ExplainKeysRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ExplainKeysResponse:
        space = SpaceId(request.space_id)
        key_bytes = self._daemon.space_identity(space).key_scheme.key_bytes
        keys = convert.keys(request.keys, key_bytes)
        return replies.explained(self._daemon.recall(space, request.group, keys))

    def ListMisses(
        self, request: admin_pb2.ListMissesRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ListMissesResponse:
        misses = self._daemon.misses(SpaceId(request.space_id))
        return admin_pb2.ListMissesResponse(misses=[replies.miss(found) for found in misses])

    def ResetSpace(
        self, request: admin_pb2.ResetSpaceRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ResetSpaceResponse:
        space = SpaceId(request.space_id)
        with self._waits.budget(convert.seconds(request.wait_s, "wait_s")) as wait_s:
            result = self._daemon.reset_space(space, wait_s)
        return admin_pb2.ResetSpaceResponse(result=replies.reset(result))

    def ResetAll(
        self, request: admin_pb2.ResetAllRequest, context: grpc.ServicerContext
    ) -> admin_pb2.ResetAllResponse:
        with self._waits.budget(convert.seconds(request.wait_s, "wait_s")) as wait_s:
            results = self._daemon.reset_all(wait_s)
        return admin_pb2.ResetAllResponse(
            results=[
                admin_pb2.SpaceResetResult(space_id=space, result=replies.reset(result))
                for space, result in sorted(results.items())
            ]
        )

    def DropSpace(
        self, request: admin_pb2.DropSpaceRequest, context: grpc.ServicerContext
    ) -> admin_pb2.DropSpaceResponse:
        dropped = self._daemon.drop_space(SpaceId(request.space_id))
        return admin_pb2.DropSpaceResponse(dropped_count=dropped)

    def CheckLedger(
        self, request: admin_pb2.CheckLedgerRequest, context: grpc.ServicerContext
    ) -> admin_pb2.CheckLedgerResponse:
        self._daemon.check()
        return admin_pb2.CheckLedgerResponse(ok=True)


def _space(space: SpaceView) -> admin_pb2.Space:
    return admin_pb2.Space(
        space_id=space.id,
        identity=identity(space.identity),
        generation=space.generation,
        session_count=space.sessions,
        ready_count=space.ready_blocks,
        writing_count=space.writing_blocks,
        draining_generations=space.draining,
        counters=_counters(space.counters),
    )


def _counters(counters: SpaceCounters) -> admin_pb2.SpaceCounters:
    return admin_pb2.SpaceCounters(
        lookups=counters.lookups,
        hit_count=counters.hit_blocks,
        pending_count=counters.pending_blocks,
        missed_count=counters.missed_blocks,
        stored_count=counters.stored_blocks,
        loaded_count=counters.loaded_blocks,
        evicted_count=counters.evicted_blocks,
        dropped_count=counters.dropped_blocks,
        resets=counters.resets,
    )


def _session(session: SessionView, world_size: int) -> admin_pb2.Session:
    return admin_pb2.Session(
        session_id=session.id,
        name=session.name,
        space_id=session.space,
        age_s=session.age_s,
        streaming=session.streaming,
        attached_ranks=session.ranks,
        world_size=world_size,
        transfer_count=session.transfers,
        lease_count=session.leases,
        held_count=session.held_blocks,
        unacknowledged_count=session.unacknowledged,
    )


def _transfer(
    transfer: TransferView, session_name: str, unfinished: Sequence[int]
) -> admin_pb2.Transfer:
    return admin_pb2.Transfer(
        session_id=transfer.session,
        transfer_id=transfer.id,
        kind=KINDS[transfer.kind],
        state=STATES[transfer.state],
        abandoned=transfer.abandoned,
        overdue=transfer.overdue,
        age_s=transfer.age_s,
        block_count=transfer.blocks,
        space_id=transfer.space,
        generation=transfer.generation,
        session_name=session_name,
        unfinished_ranks=unfinished,
    )


def _lease(lease: LeaseView) -> admin_pb2.Lease:
    return admin_pb2.Lease(
        lease_id=lease.id,
        session_id=lease.session,
        request=lease.request,
        block_count=lease.blocks,
        remaining_s=lease.remaining_s,
    )


def _slots(table: TableView) -> admin_pb2.SlotStats:
    return admin_pb2.SlotStats(
        slot_bytes=table.slot_bytes,
        extents=table.extents,
        slot_count=table.slots,
        free_count=table.free,
        evictable_count=table.evictable,
        held_count=table.held,
        writing_count=table.writing,
        quarantined_count=table.quarantined,
        zeroing_count=table.zeroing,
    )
