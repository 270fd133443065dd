"""Opens a session at the daemon, and makes sure that a lost one can do no more harm.

Runs on the thread that opens the session first, then only on the session's own. Decided here: when
a lost session's transfers may be ended. Not decided here: when to try again (`upkeep`).
"""

import contextlib
from collections.abc import Callable

from kvstow.v1 import admin_pb2, cache_pb2

from .calls import PROBE_S, Budgets, Calls
from .counters import Tally
from .errors import KvstowError, Unreachable
from .ranks import Ranks
from .standing import Standing, Ticket
from .stream import ACKNOWLEDGE_EVERY, Cursor
from .target import is_listening, socket_path
from .terms import Terms
from .transfer import Ending, TransferState
from .vigil import Opening

_MAX_LISTED = 100_000
_LOST = Ending(TransferState.LOST, "the session ended before the report came")
_CLOSED = Ending(TransferState.LOST, "the session was closed; the copy may be running still")


class Opener:
    """Opens one session, as often as it is lost.

    Args:
        request: names the space, the engine and its process.
    """

    def __init__(
        self,
        calls: Calls,
        budgets: Budgets,
        standing: Standing,
        ranks: Ranks,
        tally: Tally,
        request: cache_pb2.OpenSessionRequest,
    ) -> None:
        self._calls = calls
        self._limit_s = budgets.control_s
        self._standing = standing
        self._ranks = ranks
        self._tally = tally
        self._request = request

    def open(self, announce: Callable[[Opening], None]) -> Cursor:
        """Open the session and attach its ranks; its stream is not opened.

        Args:
            announce: called with the new opening before anybody can see it.

        Raises:
            Refused, Unreachable: see `Calls.ask`; nothing is left open that does not end by itself.
        """
        calls = self._calls
        info = self._found()
        opened: cache_pb2.OpenSessionResponse = calls.ask(
            calls.cache.OpenSession, self._request, self._limit_s
        )
        ticket = Ticket(opened.boot_id, opened.session_id)
        announce(Opening(ticket, opened.space_id, opened.generation))
        with self._ranks.lock:
            try:
                self._ranks.attach_all(ticket)
            except KvstowError:
                calls.tell(calls.cache.CloseSession, _close(ticket), ticket.boot_id, self._limit_s)
                raise
            limits = info.limits
            terms = Terms(
                opened.space_id, limits.max_keys_per_call, limits.max_transfers_per_session
            )
            self._standing.open(ticket, opened.generation, terms)
        # A daemon that keeps few reports must hear of each more often, or it takes no more work.
        every = max(1, min(ACKNOWLEDGE_EVERY, terms.max_transfers // 4))
        return Cursor(every=every)

    def is_alive(self, ticket: Ticket) -> bool | None:
        """Whether the daemon process of that session lives; None if it does not say."""
        try:
            return self._server_info(PROBE_S).boot_id == ticket.boot_id
        except KvstowError:
            return None if is_listening(self._calls.target) else False

    def settle(self, lost: Ticket, is_alive: bool | None) -> bool:
        """End a lost session and its transfers; False if a copy of one may still be running.

        Args:
            is_alive: what was found out about its daemon process just now.
        """
        if is_alive is None or (is_alive and not self._is_over(lost)):
            return False
        self._end_transfers(_LOST)
        return True

    def close(self) -> None:
        """End the session for good, whatever its copies do."""
        ticket = self._standing.ticket
        if ticket is not None:
            with contextlib.suppress(KvstowError):  # it ends by itself when its stream is gone
                self._calls.ask(
                    self._calls.cache.CloseSession, _close(ticket), self._limit_s, ticket.boot_id
                )
        self._end_transfers(_CLOSED)

    def _found(self) -> cache_pb2.GetServerInfoResponse:
        """Who the daemon is; where nobody listens at a socket, the error says that instead of gRPC's words."""
        try:
            return self._server_info(self._limit_s)
        except Unreachable:
            target = self._calls.target
            if socket_path(target) is None or is_listening(target):
                raise
            raise Unreachable(f"no daemon listens at {target}; start kvstowd") from None

    def _end_transfers(self, unreported: Ending) -> None:
        for transfer, report in self._standing.take_unfinished():
            ending = report or unreported
            self._tally.add_ending(ending.state)
            transfer.end(*ending)

    def _server_info(self, limit_s: float) -> cache_pb2.GetServerInfoResponse:
        info: cache_pb2.GetServerInfoResponse = self._calls.ask(
            self._calls.cache.GetServerInfo, cache_pb2.GetServerInfoRequest(), limit_s
        )
        return info

    def _is_over(self, lost: Ticket) -> bool:
        """End the session at the daemon; whether its copies have ended too."""
        calls = self._calls
        try:
            calls.ask(calls.cache.CloseSession, _close(lost), self._limit_s, lost.boot_id)
            if not self._standing.unfinished_count:
                return True
            listed: admin_pb2.ListTransfersResponse = calls.ask(
                calls.admin.ListTransfers,
                admin_pb2.ListTransfersRequest(limit=_MAX_LISTED),
                self._limit_s,
                lost.boot_id,
            )
        except KvstowError:
            return False
        all_listed = listed.total_count == len(listed.transfers)
        return all_listed and all(
            transfer.session_id != lost.session_id for transfer in listed.transfers
        )


def _close(ticket: Ticket) -> cache_pb2.CloseSessionRequest:
    return cache_pb2.CloseSessionRequest(session_id=ticket.session_id)
