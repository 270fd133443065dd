"""One store or load as the engine sees it: a future that ends exactly once.

UNFINISHED -> DONE        every block was copied on every rank
           -> FAILED      it was never begun, or some blocks could not be copied
           -> ABANDONED   it was cancelled, or a reset overtook it
           -> LOST        its session ended before the report came

As long as it is UNFINISHED the daemon may be reading or writing the engine's blocks, however long
that takes; in every other state it never does again. The one exception are transfers that are LOST
because `Session.close` did not wait for them. What the states say about the bytes:

state       store                               load
DONE        all accepted blocks are stored      all blocks hold their bytes
FAILED      the failed blocks are not stored    the failed blocks hold undefined bytes; if
                                                `failures` is empty no block was touched
ABANDONED   nothing is stored                   all blocks hold undefined bytes
LOST        nothing can be said                 all blocks hold undefined bytes

Who ends it: whoever removed it from the session's table of unfinished ones (see `standing`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kvstow.v1 import transfer_pb2


class TransferState(Enum):
    """See the picture above."""

    UNFINISHED = "unfinished"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"
    LOST = "lost"


REPORTED_STATES = {
    transfer_pb2.TRANSFER_STATE_DONE: TransferState.DONE,
    transfer_pb2.TRANSFER_STATE_FAILED: TransferState.FAILED,
    transfer_pb2.TRANSFER_STATE_ABANDONED: TransferState.ABANDONED,
}


@dataclass(frozen=True, slots=True)
class BlockFailures:
    """Blocks that one rank could not copy for one reason.

    Attributes:
        positions: in the request, counted from 0 over all its groups in the order given.
    """

    rank: int
    reason: str
    positions: Sequence[int]


class Ending(NamedTuple):
    """How a transfer ended."""

    state: TransferState
    reason: str = ""
    failures: Sequence[BlockFailures] = ()


class Transfer:
    """A store or a load.

    Attributes:
        id: its number within the session; 0 if it was not sent.
        state: see above.
        reason: why it is FAILED or LOST, empty otherwise; for people, except that a refusal's
            stable name comes first.
        failures: what could not be copied; only when FAILED.
        statuses: of a store, once the daemon has answered: for each block offered, over all
            groups in the order given, "A" accepted, "S" stored already, "W" being stored already,
            "N" no space, "D" not admitted by the policy. In a full pool whatever lies behind the first
            "N" of a group is "N" too. Empty for a load.
        unwanted: it was cancelled; it ends all the same.
    """

    def __init__(self, number: int = 0) -> None:
        self.id = number
        self.state = TransferState.UNFINISHED
        self.reason = ""
        self.failures: Sequence[BlockFailures] = ()
        self.statuses = ""
        self.unwanted = False
        self._ended: Future[None] = Future()

    def __repr__(self) -> str:
        return f"<Transfer {self.id} {self.state.value}{self.reason and ': '}{self.reason}>"

    @property
    def accepted_count(self) -> int:
        """Of a store, blocks that are copied."""
        return self.statuses.count("A")

    @property
    def failed_positions(self) -> frozenset[int]:
        """Positions in the request of the blocks that at least one rank could not copy."""
        return frozenset(at for failure in self.failures for at in failure.positions)

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._ended.done()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended; returns False if it has not within `timeout_s`."""
        try:
            self._ended.result(timeout_s)
        except TimeoutError:
            return False
        return True

    def add_done_callback(self, callback: "Callable[[Transfer], object]") -> None:
        """Call `callback` with the transfer when it has ended, at once if it has ended already.

        It is called on the session's own thread, which meanwhile hears of nothing else, or on one
        of gRPC's; it must not block. What it raises is logged and goes no further.
        """
        self._ended.add_done_callback(lambda _: callback(self))

    def end(
        self, state: TransferState, reason: str = "", failures: Sequence[BlockFailures] = ()
    ) -> None:
        """For the session only: record how it ended, and wake whoever waits."""
        self.state, self.reason, self.failures = state, reason, failures
        self._ended.set_result(None)
