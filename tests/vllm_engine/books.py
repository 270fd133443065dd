"""What the daemon knows: its counters, what is in flight, and whether its books are right."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvstow.client import Client
from kvstow.v1.admin_pb2 import SpaceCounters
from support.client_engine import PATIENT
from support.waiting import wait_for


class Books:
    """The books of one daemon, asked through its administration.

    Args:
        client: connected to it.
    """

    def __init__(self, client: Client) -> None:
        self._admin = client.administration

    def counters(self) -> SpaceCounters:
        """What happened in all spaces together."""
        total = SpaceCounters()
        for space in self._admin.spaces():
            for field, value in space.counters.ListFields():
                setattr(total, field.name, getattr(total, field.name) + value)
        return total

    @property
    def ready_count(self) -> int:
        """Blocks that a lookup would find."""
        return sum(space.ready_count for space in self._admin.spaces())

    def ready_count_of(self, tenant: str) -> int:
        """Blocks that a lookup of this tenant would find."""
        spaces = self._admin.spaces()
        return sum(space.ready_count for space in spaces if space.identity.tenant == tenant)

    @property
    def transfer_count(self) -> int:
        """Transfers in flight."""
        return self._admin.transfers().total_count

    @property
    def lease_count(self) -> int:
        """Leases that nobody gave back."""
        return self._admin.leases().total_count

    def attached_sessions(self) -> set[int]:
        """Those to which the memory of all ranks is attached."""
        return {
            session.session_id
            for session in self._admin.sessions()
            if len(session.attached_ranks) == session.world_size
        }

    def wait_quiet(self) -> None:
        """Wait until nothing is in flight or held, and verify the books."""
        wait_for(lambda: not self.transfer_count, "no transfer in flight")
        wait_for(lambda: not self.lease_count, "no lease")
        self._admin.check_ledger()


@contextmanager
def open_books(target: str) -> Iterator[Books]:
    """The books of the daemon that listens there."""
    with Client(target, PATIENT) as client:
        yield Books(client)
