"""An engine's requests, as far as the scheduler half must remember something of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from kvstow.client.hits import Hits

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
class Promise:
    """What a lookup found for a request; the daemon holds it for us until it is loaded or released.

    Attributes:
        start, end: the tokens that can be loaded; equal after a miss.
        hits: what to load them with.
        at: when it was looked up.
    """

    start: int
    end: int
    hits: Hits
    at: float


@dataclass(slots=True, eq=False)
class Tracked:
    """A request from its arrival to its end.

    Attributes:
        promise: what its last lookup found, until it is loaded or released.
        loading: a load for it has not been reported yet; its computed tokens are not computed.
        bypassed: a load for it failed, so it reads nothing any more.
        begun_at: how many tokens it began with, its own or shared, when it got its blocks last.
        scanned: for each group, up to which block it was looked through for blocks to offer.
        scan: the round of looking through in which that was.
        declined: keys of it that the daemon's admission policy did not take.
    """

    request: EngineRequest
    promise: Promise | None = None
    loading: bool = False
    bypassed: bool = False
    begun_at: int | None = None
    scanned: dict[int, int] = field(default_factory=dict)
    scan: int = 0
    declined: set[bytes] = field(default_factory=set)

    @property
    def computed_tokens(self) -> int:
        """Tokens whose KV is computed for sure: no placeholders, no drafts, nothing in flight.

        What a request shares with others from its beginning may be computed by one of them in the
        step in which it begins; that step has ended when it has computed something itself.
        """
        if self.loading or self.begun_at is None:
            return 0
        computed = self.request.num_computed_tokens - self.request.num_in_flight_tokens
        return computed if computed > self.begun_at else 0
