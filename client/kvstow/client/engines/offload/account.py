"""What the scheduler half has done, for the engine's own metrics and KV events."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kvstow.client.counters import Counters

Name: TypeAlias = tuple[int, bytes]
"""Group and key of a block."""


MAX_KNOWN = 1 << 18
"""Blocks of which it is remembered that they were stored: what was evicted nobody hears of."""


@dataclass(frozen=True, slots=True)
class News:
    """What has changed at the daemon, as far as this engine knows.

    Attributes:
        stored: blocks that this engine stored.
        dropped: such blocks of which it is known that they are gone, of those stored last.
    """

    stored: Sequence[Name]
    dropped: Sequence[Name]


class Account:
    """Counts, and keeps news until they are taken.

    Args:
        keeps_news: whether anybody takes them.
    """

    def __init__(self, keeps_news: bool) -> None:
        self._keeps_news = keeps_news
        self._counts: Counter[str] = Counter()
        self._taken: Counter[str] = Counter()
        self._known: OrderedDict[Name, None] = OrderedDict()  # last stored, last in order
        self._stored: list[Name] = []
        self._dropped: list[Name] = []

    def add(self, **counts: int) -> None:
        """Add to counts."""
        self._counts.update(counts)

    def add_stored(self, names: Iterable[Name]) -> None:
        """These blocks were stored."""
        stored = list(names)
        self._counts["stored_blocks"] += len(stored)
        if self._keeps_news:
            self._stored += stored
            for name in stored:
                self._known[name] = None
                self._known.move_to_end(name)
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)

    def drop_all(self) -> None:
        """Nothing is stored any more."""
        self._dropped += self._known
        self._known.clear()

    def take_news(self) -> News:
        """News since the last call."""
        news = News(self._stored, self._dropped)
        self._stored, self._dropped = [], []
        return news

    def take_counts(self, session: Counters) -> dict[str, int]:
        """By how much each count has risen since the last call; those that have not are left out.

        Args:
            session: what the session has counted until now.
        """
        self._counts.update(_risen(_flat(session), self._counts))
        risen = _risen(self._counts, self._taken)
        self._taken = Counter(self._counts)
        return risen


def _flat(session: Counters) -> dict[str, int]:
    return {
        "lookups": session.lookups,
        "hit_keys": session.hit_count,
        "missed_keys": session.missed_count,
        "stores": session.stores,
        "loads": session.loads,
        "failures": sum(session.failures.values()),
        "reopened": session.reopened,
    }


def _risen(now: Counter[str] | dict[str, int], before: Counter[str]) -> dict[str, int]:
    return {name: count - before[name] for name, count in now.items() if count > before[name]}
