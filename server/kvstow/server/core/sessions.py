"""One engine incarnation: its ranks, its transfers and leases, its events, and until when it lives without a stream."""

from dataclasses import dataclass, field

from .outbox import Outbox
from .transfers import Transfer
from .types import LeaseId, SessionId, SpaceId, TransferId


@dataclass(slots=True)
class Stream:
    """Who reads the events of a session.

    Attributes:
        number: of the stream that counts; an older one that closes changes nothing.
        grace_deadline: when the session ends unless a stream opens; None while one is open.
    """

    grace_deadline: float | None
    number: int = 0


@dataclass(slots=True)
class Session:
    """A session that has not ended.

    Attributes:
        name: the engine's own label, for people; nothing is decided by it.
        block_counts: per attached rank, blocks per group of its memory.
        transfers: unfinished ones.
        settled: ended transfers whose report was not acknowledged, so that a retry is recognised; in order of their end.
        floor: transfer ids up to this one are settled and forgotten.
        leases: by request.
        outbox: events that were not acknowledged.
        stream: what keeps it alive.
        overdue_count: transfers past their deadline whose copy still runs; while there are any, lookups find nothing.
    """

    id: SessionId
    name: str
    space: SpaceId
    opened_at: float
    outbox: Outbox
    stream: Stream
    block_counts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    transfers: dict[TransferId, Transfer] = field(default_factory=dict)
    settled: dict[TransferId, Transfer] = field(default_factory=dict)
    floor: int = 0
    leases: dict[str, LeaseId] = field(default_factory=dict)
    overdue_count: int = 0
