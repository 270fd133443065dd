"""A device around another one that holds, fails or delays chosen copies: for tests, and for trying out an installation.

Decided here: which copies a rule meets and what then happens to them. All other copies pass through untouched.

A held copy has started, so its transfer is RUNNING, and waits outside the inner device, so that it keeps no thread from
the copies of others. Only its release lets it go on: abandoning it does not, as with a device that hangs.

The lock here guards the rules and the held copies; no owner and no method of the inner device is called under it.
Owners are called from the inner device's threads, or, when it has closed, from the thread that closes or releases.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NewType, TypeAlias

from kvstow.server.core.spans import without_blocks

from .base import (
    CLOSE_S,
    Copy,
    CopyOwner,
    Device,
    DeviceError,
    DeviceHealth,
    Direction,
    Fence,
    Region,
)
from .fault_owners import Failing, Starting
from .handles import CudaEventHandle, Handle

RuleId = NewType("RuleId", int)


@dataclass(frozen=True, slots=True)
class Hold:
    """Start the copy, then keep it until it is released."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Start the copy, then keep it for so many seconds, or until it is released."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """Report blocks as failed without copying them; the others are copied.

    Args:
        reason: what the owner is told.
        blocks: indices of blocks in the copy; None: all of them.
    """

    reason: str
    blocks: tuple[int, ...] | None = None


Fault: TypeAlias = Hold | Delay | Fail


@dataclass(frozen=True, slots=True)
class FaultRule:
    """What happens to the copies that match; None matches any.

    Args:
        fault: what happens.
        session, transfer, rank, direction: which copies.
        count: how many copies it happens to; None: all that come.
    """

    fault: Fault
    session: int | None = None
    transfer: int | None = None
    rank: int | None = None
    direction: Direction | None = None
    count: int | None = None

    def matches(self, copy: Copy) -> bool:
        """Tell whether this rule meets a copy."""
        return (
            self.count != 0
            and self.session in (None, copy.session)
            and self.transfer in (None, copy.transfer)
            and self.rank in (None, copy.rank)
            and self.direction in (None, copy.direction)
        )


@dataclass(frozen=True, slots=True, eq=False)
class HeldCopy:
    """A copy that has started and waits."""

    rule: RuleId
    copy: Copy


class FaultyDevice:
    """Passes everything on to another device, except what its rules meet. Any thread may call any method.

    The first rule that matches, in the order in which they were added, is the one that applies.

    Args:
        inner: the device that copies.
    """

    def __init__(self, inner: Device) -> None:
        self._inner = inner
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        self._rules: dict[RuleId, FaultRule] = {}
        self._held: dict[HeldCopy, threading.Timer | None] = {}
        self._leaving_count = 0  # let go, but not with the inner device yet
        self._closed = False

    def add(self, rule: FaultRule) -> RuleId:
        """Let a rule apply to the copies submitted from now on."""
        with self._changed:
            number = RuleId(next(self._ids))
            self._rules[number] = rule
            return number

    def release(self, number: RuleId) -> int:
        """Let the copies that a rule holds go on, and return how many; the rule stays for those to come.

        Raises:
            DeviceError: there is no such rule.
        """
        return self._let_go(number, rule_ends=False)

    def remove(self, number: RuleId) -> int:
        """End a rule, let the copies that it holds go on, and return how many.

        Raises:
            DeviceError: there is no such rule.
        """
        return self._let_go(number, rule_ends=True)

    def held(self) -> Sequence[HeldCopy]:
        """The copies that have started and wait."""
        with self._changed:
            return tuple(self._held)

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`."""
        met = self._meet(copy)
        if met is None:
            self._inner.submit(copy)
            return
        number, fault = met
        owner: CopyOwner
        left_out: Sequence[int] = range(copy.spans.block_count)
        match fault:
            case Hold() | Delay():
                # The inner device starts it in its turn, but has nothing to copy; what ends there, waits here.
                owner = Starting(copy, lambda started: self._wait(number, fault, started))
            case Fail(reason, blocks):
                left_out = [b for b in left_out if blocks is None or b in blocks]
                owner = Failing(copy.owner, dict.fromkeys(left_out, reason))
        spans = without_blocks(copy.spans, left_out)
        self._inner.submit(replace(copy, spans=spans, owner=owner))

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        held = sum(held.copy.direction is direction for held in self.held())
        return held + self._inner.queue_depth(direction)

    def open_region(self, handle: Handle, session: int) -> Region:
        """See `Device.open_region`."""
        return self._inner.open_region(handle, session)

    def close_region(self, region: Region) -> None:
        """See `Device.close_region`."""
        self._inner.close_region(region)

    def open_fence(self, handle: CudaEventHandle, session: int) -> Fence:
        """See `Device.open_fence`."""
        return self._inner.open_fence(handle, session)

    def close_fence(self, fence: Fence) -> None:
        """See `Device.close_fence`."""
        self._inner.close_fence(fence)

    def health(self) -> Sequence[DeviceHealth]:
        """See `Device.health`; a held copy is no fault of the device, but in its queue."""
        held = Counter((each.copy.regions[0].device, each.copy.direction) for each in self.held())
        return [_with_held(found, held) for found in self._inner.health()]

    def close(self, limit_s: float = CLOSE_S) -> None:
        """See `Device.close`; what is held ends as failed, and what others let go just now has ended, too, if that took no longer."""
        until = time.monotonic() + limit_s
        with self._changed:
            self._closed = True
            held = self._take(tuple(self._held))
        self._inner.close(limit_s)
        self._go_on(held)
        with self._changed:
            self._changed.wait_for(lambda: not self._leaving_count, until - time.monotonic())

    def _meet(self, copy: Copy) -> tuple[RuleId, Fault] | None:
        """Find the rule that applies to a copy, and count it."""
        with self._changed:
            for number, rule in self._rules.items():
                if rule.matches(copy):
                    if rule.count is not None:
                        self._rules[number] = replace(rule, count=rule.count - 1)
                    return number, rule.fault
        return None

    def _wait(self, number: RuleId, fault: Hold | Delay, started: Copy) -> None:
        """Keep a copy that has started, unless its rule has ended in the meantime."""
        held = HeldCopy(number, started)
        with self._changed:
            if number in self._rules and not self._closed:
                self._held[held] = self._timer(fault, held)
                return
        self._inner.submit(started)

    def _timer(self, fault: Hold | Delay, held: HeldCopy) -> threading.Timer | None:
        """Arrange for the release of a delayed copy."""
        match fault:
            case Delay(seconds):
                timer = threading.Timer(seconds, self._time_out, [held])
                timer.daemon = True
                timer.start()
                return timer
            case Hold():
                return None

    def _time_out(self, held: HeldCopy) -> None:
        with self._changed:
            due = self._take([held] if held in self._held else [])
        self._go_on(due)

    def _let_go(self, number: RuleId, *, rule_ends: bool) -> int:
        with self._changed:
            if number not in self._rules:
                raise DeviceError(f"there is no fault rule {number}")
            if rule_ends:
                del self._rules[number]
            released = self._take([held for held in self._held if held.rule == number])
        self._go_on(released)
        return len(released)

    def _take(self, chosen: Sequence[HeldCopy]) -> Sequence[HeldCopy]:
        """Take copies out of the held ones; under the lock."""
        for held in chosen:
            if (timer := self._held.pop(held)) is not None:
                timer.cancel()
        self._leaving_count += len(chosen)
        return chosen

    def _go_on(self, released: Sequence[HeldCopy]) -> None:
        # All go on, also behind one that the inner device breaks down at.
        with ExitStack() as leaving:
            for held in reversed(released):
                leaving.callback(self._hand_on, held.copy)

    def _hand_on(self, copy: Copy) -> None:
        try:
            self._inner.submit(copy)
        finally:
            with self._changed:
                self._leaving_count -= 1
                self._changed.notify_all()


def _with_held(health: DeviceHealth, held: Mapping[tuple[str, Direction], int]) -> DeviceHealth:
    """How a device fares, where so many copies of each device and direction are held before it."""
    depths = {
        direction: depth + held.get((health.device, direction), 0)
        for direction, depth in health.queue_depths.items()
    }
    return replace(health, queue_depths=depths)
