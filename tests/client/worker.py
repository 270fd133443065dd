"""A rank in a process of its own: follows the tickets that it reads, one a line, and shows blocks.

ticket BOOT_ID SESSION_ID   attach, say "attached"
fill BLOCK BYTE             fill a block, say "filled"
show BLOCK                  say the set of its bytes
"""

import sys

from client.spaces import BLOCK_BYTES
from kvstow.client import EngineMemory, GroupMemory, RemoteRank, Segment, Ticket, Unreachable
from support.waiting import DEADLINE_S, wait_for

BLOCK_COUNT = 8


def follow(remote: RemoteRank, ticket: Ticket) -> None:
    """Attach; the connection to a daemon that was killed may be used once before it is known to be broken."""

    def attached() -> bool:
        try:
            remote.follow(ticket)
        except Unreachable:
            return False
        return True

    wait_for(attached, "the attachment")


def main() -> None:
    """Do what standard input says until it ends."""
    rank, target = int(sys.argv[1]), sys.argv[2]
    groups = [GroupMemory(block_count=BLOCK_COUNT, segments=[Segment(stride_bytes=BLOCK_BYTES)])]
    with (
        EngineMemory(BLOCK_BYTES * BLOCK_COUNT) as memory,
        RemoteRank(rank, [memory.region()], groups, target, DEADLINE_S) as remote,
    ):
        for line in sys.stdin:
            match line.split():
                case ["ticket", boot_id, session_id]:
                    follow(remote, Ticket(boot_id, int(session_id)))
                    answer = "attached"
                case ["fill", block, value]:
                    start = int(block) * BLOCK_BYTES
                    filled = bytes([int(value)]) * BLOCK_BYTES
                    memory.buffer[start : start + BLOCK_BYTES] = filled
                    answer = "filled"
                case ["show", block]:
                    start = int(block) * BLOCK_BYTES
                    answer = " ".join(map(str, set(memory.buffer[start : start + BLOCK_BYTES])))
                case _:
                    raise SystemExit(f"what is {line!r}?")
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
