"""Sends stores and loads, one at a time, and knows what became of each call.

One at a time, because the daemon takes transfer ids only in rising order. A call that is not
answered within its budget goes on; until it ends no other is sent, and those that an engine wants
meanwhile FAIL at once. What the end of a call means:

answered    accepted: the transfer ends with its report. A store of which nothing was accepted, and
            a refused call, end at once.
broken off  nobody knows whether it was accepted, so the session is given up: a session that has
            ended accepts nothing, and what it had accepted is found out before it is opened again.

May be used from any thread.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kvstow.v1 import cache_pb2

from .calls import Budgets, Calls, PendingCall
from .counters import Tally
from .errors import STALE_GENERATION, TRANSIENT, Refused, TimedOut, Unreachable
from .standing import Generation, Standing, Ticket
from .transfer import Ending, Transfer, TransferState

Request: TypeAlias = cache_pb2.StoreRequest | cache_pb2.LoadRequest
Reply: TypeAlias = cache_pb2.StoreResponse | cache_pb2.LoadResponse


class Transfers:
    """The stores and loads of one session."""

    def __init__(self, calls: Calls, standing: Standing, tally: Tally, budgets: Budgets) -> None:
        self._calls = calls
        self._standing = standing
        self._tally = tally
        self._budgets = budgets
        self._turn = threading.Lock()
        self._late = False  # the budget of the call whose turn it is ran out
        self._last_number = 0

    def send(
        self,
        method: Any,
        request: Request,
        generation: Generation,
        budget_s: float | None = None,
    ) -> Transfer:
        """Send a transfer, if the daemon may be asked; one of no blocks is DONE before it began.

        Args:
            request: the transfer, without session, id and generation.
            generation: the one in which its keys were looked up or its KV was computed.
            budget_s: how long to wait for the answer; by default the session's budget.

        Raises:
            Refused: the request is wrong, or came too late.
        """
        if not request.groups:
            return self._ended(Ending(TransferState.DONE))
        permit = self._standing.permit()
        if permit is None:
            return self.unsent(self._standing.why_not())
        if generation.era != permit.generation.era:
            raise _stale(generation)
        if not self._calls.admits():
            return self.unsent("not answering")
        budget_s = max(0.0, self._budgets.transfer_s if budget_s is None else budget_s)
        until = time.monotonic() + budget_s
        if self._late or not self._turn.acquire(timeout=budget_s):
            return self.unsent("an earlier transfer is not answered")
        self._last_number += 1
        transfer = Transfer(self._last_number)
        request.session_id = permit.ticket.session_id
        request.generation = generation.number
        request.transfer_id = transfer.id
        if not self._standing.begin(transfer, permit):
            self._turn.release()
            return self.unsent("lost or reset meanwhile")
        self._call(method, request, transfer, permit.ticket, until - time.monotonic())
        return transfer

    def unsent(self, reason: str) -> Transfer:
        """A transfer that FAILED before it began."""
        self._tally.add_failure(reason)
        return self._ended(Ending(TransferState.FAILED, reason))

    def cancel(self, transfers: tuple[Transfer, ...]) -> None:
        """Say that their results are not wanted, without waiting for it."""
        ticket = self._standing.ticket
        for transfer in transfers:
            transfer.unwanted = True
        numbers = [transfer.id for transfer in transfers if not transfer.done()]
        if ticket is not None and numbers:
            self._cancel(ticket, numbers)

    def _call(
        self, method: Any, request: Request, transfer: Transfer, ticket: Ticket, budget_s: float
    ) -> None:
        self._count(request)
        try:
            call: PendingCall[Reply] = self._calls.begin(method, request, ticket.boot_id)
        except Unreachable:
            self._break_off(ticket)
            return
        late = partial(self._conclude_late, request, transfer, ticket)
        try:
            reply = self._calls.answer(call, max(budget_s, 0), ticket.boot_id)
        except KeyboardInterrupt:  # nobody will ever hear of this transfer
            transfer.unwanted = True
            self._leave(call, "interrupted", late)
            raise
        except TimedOut:
            self._leave(call, "timed out", late)
            return
        except Unreachable:
            self._break_off(ticket)
            return
        except Refused as refused:
            self._turn.release()
            self._refuse(transfer, ticket, refused)
            if refused.reason not in TRANSIENT:
                raise
            return
        self._turn.release()
        self._accept(transfer, reply)

    def _count(self, request: Request) -> None:
        match request:
            case cache_pb2.StoreRequest():
                self._tally.add(stores=1)
            case cache_pb2.LoadRequest():
                self._tally.add(loads=1)

    def _break_off(self, ticket: Ticket) -> None:
        self._turn.release()
        self._tally.add_failure("unreachable")
        self._standing.lose(ticket)

    def _leave(self, call: PendingCall[Reply], why: str, late: Callable[..., None]) -> None:
        """The call keeps its turn, and goes on without whoever sent it."""
        self._tally.add_failure(why)
        self._late = True
        call.add_done_callback(late)

    def _conclude_late(
        self, request: Request, transfer: Transfer, ticket: Ticket, call: PendingCall[Reply]
    ) -> None:
        """The call has ended after all; whoever sent the transfer does not wait any more."""
        self._late = False
        self._turn.release()
        try:
            reply = self._calls.answer(call, 0, ticket.boot_id)
        except Unreachable:
            self._standing.lose(ticket)
        except Refused as refused:
            self._refuse(transfer, ticket, refused)
            self._release_lease(request, ticket)
        else:
            self._accept(transfer, reply)
            if transfer.unwanted and not transfer.done():
                self._cancel(ticket, [transfer.id])

    def _accept(self, transfer: Transfer, reply: Reply) -> None:
        ending = None
        match reply:
            case cache_pb2.StoreResponse():
                transfer.statuses = reply.statuses
                if not reply.accepted_count and self._standing.withdraw(transfer.id):
                    ending = Ending(TransferState.DONE)
        ending = ending or self._standing.answer(transfer.id)
        if ending is not None:
            self._tally.add_ending(ending.state)
            transfer.end(*ending)

    def _refuse(self, transfer: Transfer, ticket: Ticket, refused: Refused) -> None:
        self._tally.add_failure(refused.reason)
        self._standing.believe(ticket, refused)
        if self._standing.withdraw(transfer.id):
            self._tally.add_ending(TransferState.FAILED)
            transfer.end(TransferState.FAILED, str(refused))

    def _release_lease(self, request: Request, ticket: Ticket) -> None:
        """A load took it for used up, and was refused when nobody waited any more."""
        match request:
            case cache_pb2.LoadRequest(lease_id=lease_id) if lease_id:
                release = cache_pb2.ReleaseRequest(
                    session_id=ticket.session_id, lease_ids=[lease_id]
                )
                self._calls.tell(
                    self._calls.cache.Release, release, ticket.boot_id, self._budgets.control_s
                )

    def _cancel(self, ticket: Ticket, numbers: list[int]) -> None:
        request = cache_pb2.CancelRequest(session_id=ticket.session_id, transfer_ids=numbers)
        self._calls.tell(
            self._calls.cache.Cancel, request, ticket.boot_id, self._budgets.control_s
        )

    def _ended(self, ending: Ending) -> Transfer:
        transfer = Transfer()
        self._tally.add_ending(ending.state)
        transfer.end(*ending)
        return transfer


def _stale(generation: Generation) -> Refused:
    return Refused(
        STALE_GENERATION,
        "it was looked up or computed before a reset, or before the session was opened again",
        "Discard the KV, and look up again.",
        {"generation": str(generation.number)},
    )
