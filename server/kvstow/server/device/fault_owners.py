"""Owners that stand between a device and the owner of a copy that a fault rule meets.

See `faults`, which decides which copies these are for.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .base import Copy, CopyOwner


class Passing:
    """Passes on what the owner of a copy is told."""

    def __init__(self, owner: CopyOwner) -> None:
        self._owner = owner

    def start(self) -> bool:
        """See `CopyOwner.start`."""
        return self._owner.start()

    def abandoned(self) -> bool:
        """See `CopyOwner.abandoned`."""
        return self._owner.abandoned()

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        """See `CopyOwner.end`."""
        self._owner.end(rank, failures, copied_bytes, seconds)


class Starting(Passing):
    """Owns the start of a copy that will be held; its end is the end of the start only."""

    def __init__(self, copy: Copy, wait: Callable[[Copy], None]) -> None:
        super().__init__(copy.owner)
        self._copy = copy
        self._wait = wait
        self._started_at = time.monotonic()

    def start(self) -> bool:
        self._started_at = time.monotonic()
        return super().start()

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        owner = Started(self._owner, self._started_at)
        self._wait(replace(self._copy, owner=owner))


class Started(Passing):
    """Owns a copy that was held: its owner let it start before, and the time that it was held counts."""

    def __init__(self, owner: CopyOwner, started_at: float) -> None:
        super().__init__(owner)
        self._started_at = started_at

    def start(self) -> bool:
        return True

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        super().end(rank, failures, copied_bytes, time.monotonic() - self._started_at)


class Failing(Passing):
    """Owns a copy of which some blocks were left out, and reports them as failed."""

    def __init__(self, owner: CopyOwner, failures: Mapping[int, str]) -> None:
        super().__init__(owner)
        self._failures = failures

    def end(
        self, rank: int, failures: Sequence[tuple[int, str]], copied_bytes: int, seconds: float
    ) -> None:
        both = sorted({**dict(failures), **self._failures}.items())
        super().end(rank, both, copied_bytes, seconds)
