"""What to do about a transfer that is past its deadline. Pure."""

from kvstow.v1 import admin_pb2, transfer_pb2


def advice(transfer: admin_pb2.Transfer) -> str:
    """One line for the person who has to decide."""
    if transfer.state == transfer_pb2.TRANSFER_STATE_QUEUED:
        return (
            "it has not begun: others copy before it, or the device has stopped; look at the oldest"
            " running one first, and at copy_threads if all of them progress"
        )
    ranks = ", ".join(map(str, transfer.unfinished_ranks)) or "none"
    if not transfer.session_name:
        return (
            f"its engine is gone and nobody waits for it: its slots stay taken until the copy of rank"
            f" {ranks} ends; restart the daemon if it never does"
        )
    return (
        f"see whether the device of rank {ranks} of {transfer.session_name!r} answers (nvidia-smi, dmesg);"
        " the engine must not reuse the blocks before the copy ends, so if it never does, restart the"
        " engine, then the daemon"
    )
