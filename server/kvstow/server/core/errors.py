"""Every way the daemon says no: one exception per refusal, each with a stable reason and the caller's next step.

A refusal is raised before anything changed: the books are as they were. `BooksError` is different: it says that our own
accounts disagree, which no client can cause.
"""

from typing import ClassVar


class BooksError(AssertionError):
    """The books contradict themselves: a bug of ours, never a client's mistake."""


class Refusal(Exception):
    """A request that is refused and changed nothing.

    Attributes:
        reason: stable upper-case name, part of the protocol.
        next_step: what the caller should do, in one sentence.
        facts: what the refusal is about, as short strings (indexes, counts, generations).
    """

    reason: ClassVar[str]
    next_step: ClassVar[str]

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts: dict[str, str] = {name: str(value) for name, value in facts.items()}


class InvalidRequest(Refusal):
    """A field is missing, malformed or out of its range."""

    reason = "INVALID_REQUEST"
    next_step = "Correct the named field; a retry of the same request cannot succeed."


class DuplicateKey(Refusal):
    """The same key stands twice in one group of a call."""

    reason = "DUPLICATE_KEY"
    next_step = "Send each key once per group and call."


class DuplicateBlock(Refusal):
    """The same engine block stands twice in one group of a call."""

    reason = "DUPLICATE_BLOCK"
    next_step = "Send each engine block id once per group and call."


class BlockOutOfRange(Refusal):
    """An engine block id lies outside the memory that was attached."""

    reason = "BLOCK_OUT_OF_RANGE"
    next_step = "Compare the block ids with the block count given at attach."


class TooManyKeys(Refusal):
    """More keys in one call than the server takes."""

    reason = "TOO_MANY_KEYS"
    next_step = "Split the call at the limit that GetServerInfo reports."


class BlockTooLarge(Refusal):
    """One block for all ranks does not fit into an extent of the host pool."""

    reason = "BLOCK_TOO_LARGE"
    next_step = "Raise extent_size of the daemon, and pool_size if it is smaller, above the slot size named here."


class NoSuchSession(Refusal):
    """The session does not exist: it ended, or it belongs to another daemon process."""

    reason = "NO_SUCH_SESSION"
    next_step = (
        "Open a session again, attach the memory again, and forget what was believed stored."
    )


class NoSuchSpace(Refusal):
    """No space has this id."""

    reason = "NO_SUCH_SPACE"
    next_step = "List the spaces; the id may come from another daemon process."


class SpaceInUse(Refusal):
    """The space still has sessions."""

    reason = "SPACE_IN_USE"
    next_step = "End its sessions first, or reset the space instead of dropping it."


class StaleGeneration(Refusal):
    """The request names a generation of the space that a reset has ended."""

    reason = "STALE_GENERATION"
    next_step = "Discard the KV computed with the old weights and use the generation named here."


class NotAttached(Refusal):
    """Not all ranks of the session have attached their memory."""

    reason = "NOT_ATTACHED"
    next_step = "Attach the ranks named here, then send the transfer again."


class RankAttached(Refusal):
    """This rank has memory attached already."""

    reason = "RANK_ATTACHED"
    next_step = "Detach the rank first, or give each worker its own rank."


class RankMismatch(Refusal):
    """A rank differs from the ranks attached before it in something that must be equal."""

    reason = "RANK_MISMATCH"
    next_step = "Start all ranks of the engine with the same cache configuration."


class RegionInvalid(Refusal):
    """A region of engine memory cannot be opened, is too small, is attached by another rank, or is of another device than
    the rank's other memory."""

    reason = "REGION_INVALID"
    next_step = "Check the handle, the size, and that daemon and engine see the same memory."


class FenceInvalid(Refusal):
    """A fence cannot be opened, or is of another device than the rank's memory."""

    reason = "FENCE_INVALID"
    next_step = "Check that the event was made for other processes, still exists, and is of the rank's own GPU."


class FenceOutOfRange(Refusal):
    """A transfer names a fence that a rank has not attached."""

    reason = "FENCE_OUT_OF_RANGE"
    next_step = "Compare the index with the number of fences that each rank attached."


class CudaOff(Refusal):
    """Memory or fences of a GPU are attached, and the daemon runs without CUDA."""

    reason = "CUDA_OFF"
    next_step = "Give the daemon the GPUs and their driver, and do not set cuda = off; its start log says what is missing."


class GpuUnknown(Refusal):
    """Memory or fences are of a GPU that the daemon does not see."""

    reason = "GPU_UNKNOWN"
    next_step = (
        "Let the daemon see every GPU of the node: its container, and its CUDA_VISIBLE_DEVICES."
    )


class DeviceBusy(Refusal):
    """The device does not answer in time, or still copies from or to the same memory for an earlier session."""

    reason = "DEVICE_BUSY"
    next_step = "Attach again a little later; if it stays so, look at the daemon's health and log."


class TransferIdReused(Refusal):
    """The transfer id was used before for something else, or lies below ids already settled."""

    reason = "TRANSFER_ID_REUSED"
    next_step = "Use rising transfer ids and repeat one only for the identical request."


class KeyNotReady(Refusal):
    """A key of a load is not READY in the current generation; nothing was loaded."""

    reason = "KEY_NOT_READY"
    next_step = (
        "Look the prefix up again with a hold and load what is found, or compute the blocks."
    )


class TooManyTransfers(Refusal):
    """The session has as many transfers unfinished or unacknowledged as the server keeps."""

    reason = "TOO_MANY_TRANSFERS"
    next_step = (
        "Wait until some have ended, acknowledge their events, then send the transfer again."
    )


class TooManyLeases(Refusal):
    """The session has as many leases as the server keeps."""

    reason = "TOO_MANY_LEASES"
    next_step = "Load or release what was looked up."


class TooManySessions(Refusal):
    """The server has as many sessions as it takes."""

    reason = "TOO_MANY_SESSIONS"
    next_step = "Close sessions, or raise max_sessions of the daemon."


class TooManySpaces(Refusal):
    """The server, or the tenant, has as many spaces as it may, and all of them are in use or hold blocks."""

    reason = "TOO_MANY_SPACES"
    next_step = "Drop spaces that are no longer needed, or raise max_spaces or max_tenant_spaces of the daemon."


class ShuttingDown(Refusal):
    """The daemon is draining and takes no new work."""

    reason = "DRAINING"
    next_step = "Treat lookups as misses and open a session with the next daemon process."


class NotStarted(Refusal):
    """The host pool is still being faulted in."""

    reason = "NOT_READY"
    next_step = "Wait until the health service reports SERVING."
