"""Which calls are open, and whose: so that nobody takes all threads, and that a token that is revoked ends what it began.

A call has a thread from the moment it is looked at, also while its request has not arrived. So a caller who opens calls and
sends nothing costs threads: its share of them at most, and each for REQUEST_S at most. One lock, under which nothing waits.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from .callers import Caller
from .status import TooManyCalls

REQUEST_S = 10.0
"""How long a request may take to arrive."""

NOBODY = "callers without a token"


@dataclass(frozen=True, slots=True)
class Shares:
    """How many calls may be open at a time.

    Args:
        tenant: for all engines of a tenant.
        token: for each other token.
        nobody: for all callers without a token, where one is needed for other calls.
    """

    tenant: int
    token: int
    nobody: int


@dataclass(slots=True, eq=False)
class OpenCall:
    """One call.

    Args:
        caller: who makes it; None for somebody unknown.
        context: by which it can be ended.
        request_due: when its request must have arrived, on the monotonic clock; None once it has.
    """

    caller: Caller | None
    context: grpc.ServicerContext
    request_due: float | None

    def received(self) -> None:
        """Its request has arrived."""
        self.request_due = None


class OpenCalls:
    """All of them.

    Args:
        shares: of whom how many may be open.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._open: dict[int, OpenCall] = {}
        self._counts: Counter[str] = Counter()

    def enter(self, caller: Caller | None, context: grpc.ServicerContext) -> tuple[int, OpenCall]:
        """A call has begun; returns what `leave` takes.

        Raises:
            TooManyCalls: whoever makes it has as many open as it may.
        """
        share, limit = self._share(caller)
        call = OpenCall(caller, context, time.monotonic() + REQUEST_S)
        with self._lock:
            if limit is not None and self._counts[share] >= limit:
                raise TooManyCalls(f"{share}: {limit} calls are open, the limit", limit=limit)
            self._counts[share] += 1
            number = next(self._numbers)
            self._open[number] = call
        return number, call

    def leave(self, number: int) -> None:
        """A call has ended."""
        with self._lock:
            share, _ = self._share(self._open.pop(number).caller)
            self._counts[share] -= 1
            if not self._counts[share]:
                del self._counts[share]

    def end_stale(self, is_valid: Callable[[Caller], bool]) -> int:
        """End calls whose request does not come, and those of callers who are not valid any more; returns how many."""
        now = time.monotonic()
        with self._lock:
            calls = list(self._open.values())
        stale = [call for call in calls if _is_late(call, now) or not _stands(call, is_valid)]
        for call in stale:
            call.context.cancel()
        return len(stale)

    def _share(self, caller: Caller | None) -> tuple[str, int | None]:
        """Who a caller shares threads with, and how many they may have; None for as many as there are."""
        if caller is None:
            return NOBODY, self._shares.nobody
        if not caller.name:
            return "", None
        return caller.share, self._shares.tenant if caller.tenant else self._shares.token


def _is_late(call: OpenCall, now: float) -> bool:
    return call.request_due is not None and now > call.request_due


def _stands(call: OpenCall, is_valid: Callable[[Caller], bool]) -> bool:
    return call.caller is None or is_valid(call.caller)
