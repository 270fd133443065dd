"""What an administrator asks of the daemon; admin.proto says what each call promises.

Every method raises `Refused` or `Unreachable`, and blocks for the control budget at most, besides a
wait that was asked for.
"""

from collections.abc import Sequence
from typing import Any

from kvstow.v1 import admin_pb2, reset_pb2

from .calls import Calls


class Administration:
    """Looking, resetting, dropping; no session is needed.

    Args:
        limit_s: how long each call may take.
    """

    def __init__(self, calls: Calls, limit_s: float) -> None:
        self._calls = calls
        self._limit_s = limit_s

    def spaces(self) -> Sequence[admin_pb2.Space]:
        """The spaces, oldest first."""
        reply: admin_pb2.ListSpacesResponse = self._ask(
            self._calls.admin.ListSpaces, admin_pb2.ListSpacesRequest()
        )
        return reply.spaces

    def sessions(self) -> Sequence[admin_pb2.Session]:
        """The living sessions, oldest first."""
        reply: admin_pb2.ListSessionsResponse = self._ask(
            self._calls.admin.ListSessions, admin_pb2.ListSessionsRequest()
        )
        return reply.sessions

    def transfers(
        self, limit: int = 0, *, overdue_only: bool = False
    ) -> admin_pb2.ListTransfersResponse:
        """The oldest transfers that have not ended, and how many there are in all."""
        reply: admin_pb2.ListTransfersResponse = self._ask(
            self._calls.admin.ListTransfers,
            admin_pb2.ListTransfersRequest(limit=limit, overdue_only=overdue_only),
        )
        return reply

    def leases(self, limit: int = 0) -> admin_pb2.ListLeasesResponse:
        """The leases that expire first, and how many there are in all."""
        reply: admin_pb2.ListLeasesResponse = self._ask(
            self._calls.admin.ListLeases, admin_pb2.ListLeasesRequest(limit=limit)
        )
        return reply

    def stats(self) -> admin_pb2.GetStatsResponse:
        """How the host pool is used."""
        reply: admin_pb2.GetStatsResponse = self._ask(
            self._calls.admin.GetStats, admin_pb2.GetStatsRequest()
        )
        return reply

    def settings(self) -> Sequence[admin_pb2.Setting]:
        """With what the daemon runs."""
        reply: admin_pb2.GetConfigurationResponse = self._ask(
            self._calls.admin.GetConfiguration, admin_pb2.GetConfigurationRequest()
        )
        return reply.settings

    def explain_keys(
        self, space_id: int, group: int, keys: Sequence[bytes]
    ) -> admin_pb2.ExplainKeysResponse:
        """What became last of keys of one group; all have the length that the space's key scheme names."""
        reply: admin_pb2.ExplainKeysResponse = self._ask(
            self._calls.admin.ExplainKeys,
            admin_pb2.ExplainKeysRequest(space_id=space_id, group=group, keys=b"".join(keys)),
        )
        return reply

    def misses(self, space_id: int) -> Sequence[admin_pb2.Miss]:
        """The keys at which the latest lookups of a space ended, newest first, and why."""
        reply: admin_pb2.ListMissesResponse = self._ask(
            self._calls.admin.ListMisses, admin_pb2.ListMissesRequest(space_id=space_id)
        )
        return reply.misses

    def reset_space(self, space_id: int, wait_s: float = 0.0) -> reset_pb2.ResetResult:
        """Empty one space."""
        reply: admin_pb2.ResetSpaceResponse = self._ask(
            self._calls.admin.ResetSpace,
            admin_pb2.ResetSpaceRequest(space_id=space_id, wait_s=wait_s),
            wait_s,
        )
        return reply.result

    def reset_all(self, wait_s: float = 0.0) -> Sequence[admin_pb2.SpaceResetResult]:
        """Empty every space; what became of each, by id."""
        reply: admin_pb2.ResetAllResponse = self._ask(
            self._calls.admin.ResetAll, admin_pb2.ResetAllRequest(wait_s=wait_s), wait_s
        )
        return reply.results

    def drop_space(self, space_id: int) -> int:
        """Drop a space without sessions; returns how many blocks it held."""
        reply: admin_pb2.DropSpaceResponse = self._ask(
            self._calls.admin.DropSpace, admin_pb2.DropSpaceRequest(space_id=space_id)
        )
        return reply.dropped_count

    def check_ledger(self) -> None:
        """Have the daemon verify its books; they agree if this returns."""
        self._ask(self._calls.admin.CheckLedger, admin_pb2.CheckLedgerRequest())

    def _ask(self, method: Any, request: Any, wait_s: float = 0.0) -> Any:
        return self._calls.ask(method, request, wait_s + self._limit_s)
