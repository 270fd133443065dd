"""How a simulated engine schedules."""

from dataclasses import dataclass

from engines.request import Request

STEP_TOKENS = 6
SHARED_STEP_TOKENS = 4


@dataclass(frozen=True)
class Manners:
    """See `engines.engine.SimulatedEngine` for each."""

    urgent_first: bool
    ahead: bool
    defers: bool
    drafts: int

    @property
    def most_tokens(self) -> int:
        """Of one request in one step."""
        return SHARED_STEP_TOKENS if self.urgent_first else STEP_TOKENS

    def token_count(self, request: Request) -> int:
        """How many tokens of a running request are computed next, with guessed ones."""
        left = request.num_tokens - request.num_computed_tokens
        return 1 + self.drafts if left == 1 else min(self.most_tokens, left)
