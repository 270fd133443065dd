"""What a session has done, for the engine's own metrics."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from .breaker import BreakerState
from .transfer import TransferState


@dataclass(frozen=True, slots=True)
class Counters:
    """A snapshot; everything but `breaker` and `unfinished` only rises.

    Attributes:
        lookups: calls of `lookup` that were meant to find something.
        hit_count, pending_count, missed_count: keys asked for, as the daemon counts them; all
            keys of a lookup that it did not answer are missed.
        stores, loads: transfers that were sent.
        ended: transfers by how they ended, also those that were never sent.
        failures: what went wrong: refusals by their reason, and why calls were not answered or
            not made.
        ignored_reports: terminal reports of transfers that were not known or had ended.
        reopened: how often the session was lost and opened again.
        breaker: whether the daemon is believed to answer.
        unfinished: transfers that have not ended.
    """

    lookups: int
    hit_count: int
    pending_count: int
    missed_count: int
    stores: int
    loads: int
    ended: Mapping[TransferState, int]
    failures: Mapping[str, int]
    ignored_reports: int
    reopened: int
    breaker: BreakerState
    unfinished: int


class Tally:
    """Counts; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._ended: Counter[TransferState] = Counter()
        self._failures: Counter[str] = Counter()

    def add(self, **counts: int) -> None:
        """Add to counters named as in `Counters`."""
        with self._lock:
            self._counts.update(counts)

    def add_ending(self, state: TransferState) -> None:
        """A transfer has ended."""
        with self._lock:
            self._ended[state] += 1

    def add_failure(self, reason: str) -> None:
        """Something went wrong."""
        with self._lock:
            self._failures[reason] += 1

    def snapshot(self, breaker: BreakerState, unfinished: int) -> Counters:
        """What was counted until now, with two states that are read elsewhere."""
        with self._lock:
            counts = self._counts
            return Counters(
                lookups=counts["lookups"],
                hit_count=counts["hit_count"],
                pending_count=counts["pending_count"],
                missed_count=counts["missed_count"],
                stores=counts["stores"],
                loads=counts["loads"],
                ended=dict(self._ended),
                failures=dict(self._failures),
                ignored_reports=counts["ignored_reports"],
                reopened=counts["reopened"],
                breaker=breaker,
                unfinished=unfinished,
            )
