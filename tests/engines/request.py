"""A request of the simulated engine."""

from dataclasses import dataclass, field
from enum import Enum


class Stage(Enum):
    """Where a request is."""

    WAITING = "waiting"
    LOADING = "loading"
    RUNNING = "running"
    OVER = "over"


@dataclass
class Stale:
    """Tokens of steps under way that were planned before the request lost its blocks.

    Attributes:
        is_dropped: what those steps say of it does not count.
    """

    count: int = 0
    is_dropped: bool = False

    def begin(self, count: int, drop: bool) -> None:
        """It loses its blocks."""
        self.is_dropped = drop or (self.is_dropped and self.count > 0)
        self.count = count


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
    stale: Stale = field(default_factory=Stale)

    @property
    def num_tokens(self) -> int:
        """With what was generated."""
        return len(self.tokens)

    @property
    def may_begin(self) -> bool:
        """Whether it waits for nothing but blocks and its turn."""
        return self.stage is Stage.WAITING and (not self.stale.count or self.stale.is_dropped)

    def plan(self, count: int) -> "Chunk":
        """Have so many tokens computed, guessed ones if it has not enough."""
        start = self.num_computed_tokens
        drafts = self._draft(max(0, start + count - self.num_tokens))
        return Chunk(self, start, count, list(map(list, self.tables)), drafts)

    def generate(self, drafts: bytes, hash_tokens: int) -> int:
        """Generate a token, and one more for each guess that was right, the same after the same ones.

        Returns:
            How many guesses were wrong.
        """
        right_count = 0
        while drafts[right_count : right_count + 1] == next_token(self.tokens):
            self.tokens += drafts[right_count : right_count + 1]
            right_count += 1
        self.tokens = (self.tokens + next_token(self.tokens))[: self.goal + 1]
        self.hash(hash_tokens)
        return len(drafts) - right_count

    def _draft(self, count: int) -> bytes:
        """Guess so many tokens; some of them may be right, and then the first ones are."""
        guessed, right_count = b"", len(self.tokens) % (count + 1)
        for number in range(count):
            token = next_token(self.tokens + guessed)
            guessed += token if number < right_count else bytes([token[0] ^ 1])
        return guessed

    def hash(self, hash_tokens: int) -> None:
        """Name the blocks that are full by their tokens."""
        ends = range(hash_tokens, len(self.tokens) + 1, hash_tokens)
        self.block_hashes = [self.tokens[:end] for end in ends]


@dataclass(frozen=True)
class Chunk:
    """What one step computes of a request, into the blocks that it has when the step is planned.

    Attributes:
        drafts: guessed tokens behind the request's own.
    """

    request: Request
    start: int
    count: int
    tables: list[list[int]]
    drafts: bytes = b""

    @property
    def end(self) -> int:
        """Tokens up to its end, without drafts."""
        return self.start + self.count - len(self.drafts)

    @property
    def tokens(self) -> bytes:
        """All up to its end; what the request has generated since it was planned is no part of it."""
        return self.request.tokens[: self.end] + self.drafts


def next_token(tokens: bytes) -> bytes:
    """What the model says."""
    return bytes([sum(tokens) % 251])
