"""Decides what can be asked of the engine and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass


class TooLong(Exception):
    """Prompt and answer do not fit into the model's context."""

    def __init__(self, token_count: int, context_tokens: int) -> None:
        super().__init__(f"{token_count} tokens wanted, the model's context has {context_tokens}")


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate.

    Attributes:
        prompt: Token ids, at least one.
        max_new_tokens: Upper limit of the answer, at least one.
        end_token: Ends the answer when generated, and is not part of it; None for no such token.
        salt: Prompts with different salts share nothing.
        reads_cache: False computes everything, but still keeps it for others.
    """

    prompt: Sequence[int]
    max_new_tokens: int
    end_token: int | None = None
    salt: bytes = b""
    reads_cache: bool = True

    def __post_init__(self) -> None:
        if not self.prompt or self.max_new_tokens < 1:
            raise ValueError("a request needs a prompt and room for an answer")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a request.

    Attributes:
        tokens: The generated tokens.
        local_tokens: Prompt tokens whose blocks were still in this engine.
        external_tokens: Prompt tokens whose blocks came from the external cache.
        first_token_s: Seconds from the request to its first token.
        total_s: Seconds from the request to its last token.
    """

    tokens: tuple[int, ...]
    local_tokens: int
    external_tokens: int
    first_token_s: float
    total_s: float
