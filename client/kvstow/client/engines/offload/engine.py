"""What the scheduler half must know of its engine, once and with every step. Plain values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .requests import BlockTable
from .shape import Shape

Evictable: TypeAlias = Callable[[], Iterable[tuple[int, bytes, int]]]
"""Blocks that the engine evicts next, as group, key and block."""


@dataclass(frozen=True, slots=True)
class Written:
    """What the workers write in one step.

    Attributes:
        handed_out: blocks that were given to requests, to be written from now on.
        copied_from: for those that begin as a copy of another block, the other.
        zeroed: blocks that are zeroed first.
    """

    handed_out: Sequence[int] = ()
    copied_from: Mapping[int, int] = field(default_factory=dict)
    zeroed: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """What the scheduler half must know of its engine.

    Attributes:
        shape: of its blocks.
        world_size: number of ranks.
        table: its block tables.
        prompt_only: blocks with generated tokens are not offered.
        evictable: if set, nothing is offered but what the engine evicts next.
        lookup_budget_s: how long all lookups for one request may take, together.
        keeps_news: whether anybody takes the news of the half's account.
    """

    shape: Shape
    world_size: int
    table: BlockTable
    prompt_only: bool = False
    evictable: Evictable | None = None
    lookup_budget_s: float = 0.05
    keeps_news: bool = False
