"""A request of the simulated engine."""

from dataclasses import dataclass, field
from enum import Enum


class Stage(Enum):
    """Where a request is."""

    WAITING = "waiting"
    LOADING = "loading"
    RUNNING = "running"
    OVER = "over"


@dataclass(eq=False)
class Request:
    """A request, with the attributes that a half looks at."""

    request_id: str
    tokens: bytes
    goal: int
    skip_reading_prefix_cache: bool
    block_hashes: list[bytes]
    num_prompt_tokens: int
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    stage: Stage = Stage.WAITING
    tables: list[list[int]] = field(default_factory=list)
    urgency: int = 0

    @property
    def num_tokens(self) -> int:
        """With what was generated."""
        return len(self.tokens)

    def grow(self, hash_tokens: int) -> None:
        """Generate a token, the same after the same ones."""
        self.tokens += bytes([sum(self.tokens) % 251])
        self.hash(hash_tokens)

    def hash(self, hash_tokens: int) -> None:
        """Name the blocks that are full by their tokens."""
        ends = range(hash_tokens, len(self.tokens) + 1, hash_tokens)
        self.block_hashes = [self.tokens[:end] for end in ends]


@dataclass(frozen=True)
class Chunk:
    """What one step computes of a request, into the blocks that it has when the step is planned."""

    request: Request
    start: int
    count: int
    tables: list[list[int]]
