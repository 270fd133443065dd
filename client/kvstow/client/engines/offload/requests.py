"""An engine's requests, as far as the scheduler half must remember something of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from kvstow.client.hits import Hits
from kvstow.client.standing import Generation

from .account import Name

BlockTable: TypeAlias = Callable[[str, int, int, int], Sequence[int]]
"""The engine's block ids of a request: of one group, from one position up to another."""


class EngineRequest(Protocol):
    """A request of the engine; the names are vLLM's.

    Attributes:
        request_id: unique in the engine, also over time.
        block_hashes: of all blocks that are full by their tokens, whether computed or not.
        num_tokens, num_prompt_tokens: with and without what was generated.
        num_computed_tokens: whose KV is computed, or will be when all steps under way have ended.
        num_in_flight_tokens: those that the steps under way compute.
        skip_reading_prefix_cache: it must not read any cache.
    """

    @property
    def request_id(self) -> str: ...
    @property
    def block_hashes(self) -> Sequence[bytes]: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...
    @property
    def num_computed_tokens(self) -> int: ...
    @property
    def num_in_flight_tokens(self) -> int: ...
    @property
    def skip_reading_prefix_cache(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Found:
    """What one lookup found.

    Attributes:
        start, end: the tokens whose keys it named.
        hits: what to load them with; the lookup's name is the request's of these.
    """

    start: int
    end: int
    hits: Hits


@dataclass(frozen=True, slots=True)
class Promise:
    """What was found for a request; the daemon holds it for us until it is loaded or released.

    Attributes:
        start, end: the tokens that can be loaded; equal after a miss.
        found: by which lookups, in order; one names no more keys than the daemon takes.
        generation: in which they were looked up.
        at: when.
    """

    start: int
    end: int
    found: Sequence[Found]
    generation: Generation
    at: float

    @property
    def names(self) -> list[str]:
        """What the daemon knows its leases by."""
        return [each.hits.request for each in self.found]


@dataclass(slots=True, eq=False)
class Tracked:
    """A request from its arrival to its end.

    Attributes:
        promise: what its last lookup found, until it is loaded or released.
        loading: a load for it has not been reported yet; its computed tokens are not computed.
        bypassed: a load for it failed, so it reads nothing any more.
        begun_at: how many tokens it began with, its own or shared, when it got its blocks last.
        began_with: the blocks of those, and what they should hold.
        is_sound: they were found to hold that.
        confirmed: for each group, up to which block it has confirmed what it computed.
        scanned: for each group, up to which block it was looked through for blocks to offer.
        scan: the round of looking through in which that was.
        declined: keys of it that the daemon's admission policy did not take.
    """

    request: EngineRequest
    promise: Promise | None = None
    loading: bool = False
    bypassed: bool = False
    begun_at: int | None = None
    began_with: Sequence[tuple[int, Name]] = ()
    is_sound: bool = False
    confirmed: dict[int, int] = field(default_factory=dict)
    scanned: dict[int, int] = field(default_factory=dict)
    scan: int = 0
    declined: set[bytes] = field(default_factory=set)

    @property
    def has_progressed(self) -> bool:
        """Whether a step has ended in which it has computed something itself."""
        return self.begun_at is not None and self._progress > self.begun_at

    @property
    def computed_tokens(self) -> int:
        """Tokens whose KV is right: no placeholders, no drafts, nothing in flight, nothing that stands on what is not confirmed."""
        return self._progress if self.is_sound else 0

    @property
    def _progress(self) -> int:
        if self.loading:
            return 0
        return self.request.num_computed_tokens - self.request.num_in_flight_tokens
