"""The order in which copies are made, common to all devices.

Worker threads act as streams: each takes the next piece of the copy whose turn it is and copies it. Loads go before
stores; copies of one direction take turns piece by piece. So a small load waits for the pieces being copied just now
and for one piece of each other load, however large the copies before it are. Several threads may work on pieces of one
copy at once. An abandoned copy stops at its next piece.

Decided here: order, pieces, and that every copy that started ends once. Not decided here: how a piece is copied.
The lock here guards the queue and the accounts of the copies; no owner is called and nothing is copied under it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kvstow.server.core.spans import Spans, cut

from .base import Copy, Direction

CopyPiece: TypeAlias = Callable[[Spans], Sequence[tuple[int, str]]]
"""Copies some spans of a copy and returns when that is done: the index of each span that failed, and why.

An exception means that none of the piece may be relied on. Several threads call it at once.
"""

Prepare: TypeAlias = Callable[[Copy], CopyPiece]
"""Does what is needed once per copy, before its first piece; an exception fails the piece that asked for it.

When several threads come to a copy together, it may be called for each.
"""


@dataclass(slots=True, eq=False)
class _Progress:
    """How far one copy is.

    Only the thread that took the copy from its queue touches `pieces` and `started_at`; the rest is under the lock,
    but for `copy_piece`, which whoever comes first sets.

    Args:
        copy: the copy.
        copy_piece: makes its pieces.
        pieces: the pieces not yet looked at.
        next_piece: the piece to copy next; None when all have been handed out or given up.
        started_at: when the owner let it start.
        working_count: threads that are at a piece of it.
        failures: blocks that failed, and why.
        copied_bytes: bytes copied so far.
    """

    copy: Copy
    pieces: Iterator[Spans]
    copy_piece: CopyPiece | None = None
    next_piece: Spans | None = None
    started_at: float | None = None
    working_count: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    copied_bytes: int = 0

    def fail(self, piece: Spans, span: int, reason: str) -> None:
        """The blocks of one span failed; the first reason is kept."""
        for block in range(int(piece.first_block[span]), int(piece.last_block[span]) + 1):
            self.failures.setdefault(block, reason)

    def give_up(self, reason: str) -> None:
        """What has not been handed out will not be copied."""
        if self.next_piece is not None:
            for block in range(int(self.next_piece.first_block[0]), self.copy.spans.block_count):
                self.failures.setdefault(block, reason)
        self.next_piece = None


def refuse(copy: Copy, reason: str) -> None:
    """Start and end a copy that cannot be made, in the calling thread."""
    if copy.owner.start():
        failures = [(block, reason) for block in range(copy.spans.block_count)]
        copy.owner.end(copy.rank, failures, 0, 0.0)


class Streams:
    """Worker threads and the copies they have to make.

    Args:
        prepare: says how the pieces of a copy are made.
        thread_count: worker threads.
        piece_bytes: largest piece.
        name: what the threads are called, before a hyphen and a number.
    """

    def __init__(
        self, prepare: Prepare, thread_count: int, piece_bytes: int, name: str = "copy"
    ) -> None:
        self._prepare = prepare
        self._piece_bytes = piece_bytes
        self._changed = threading.Condition()
        self._closing = False
        self._queues: dict[Direction, deque[_Progress]] = {  # in the order of their rank
            Direction.LOAD: deque(),
            Direction.STORE: deque(),
        }
        self._depths = dict.fromkeys(self._queues, 0)
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(thread_count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, copy: Copy) -> None:
        """See `Copier.submit`."""
        progress = _Progress(copy, cut(copy.spans, self._piece_bytes))
        with self._changed:
            self._queues[copy.direction].append(progress)
            self._depths[copy.direction] += 1
            self._changed.notify()
            closing = self._closing
        if closing:  # the threads may be gone
            self._work()

    def queue_depth(self, direction: Direction) -> int:
        """See `Copier.queue_depth`."""
        with self._changed:
            return self._depths[direction]

    def give_up(self, reason: str) -> None:
        """Fail what is queued and not being copied just now, in the calling thread: for when the others may hang."""
        with self._changed:
            queued = [progress for queue in self._queues.values() for progress in queue]
            for queue in self._queues.values():
                queue.clear()
        for progress in queued:
            if progress.started_at is not None or self._start(progress):
                with self._changed:
                    progress.working_count += 1
                    progress.give_up(reason)
                self._settle(progress, None, ())

    def close(self, limit_s: float | None = None) -> bool:
        """See `Device.close`.

        Args:
            limit_s: how long to wait for the threads; None: until they are gone.

        Returns:
            Whether all are gone. The copies that others are in have not ended.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        until = None if limit_s is None else time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(None if until is None else max(until - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        """Make pieces until there is nothing left to do and nothing will come."""
        while self._step():
            pass  # a waiting thread refers to no copy, so that the memory of the last one can be unmapped

    def _step(self) -> bool:
        """Start a copy if need be and make one piece of it."""
        progress = self._take()
        if progress is None:
            return False
        if progress.started_at is not None or self._start(progress):
            piece = self._hand_out(progress)
            self._settle(progress, piece, self._make(progress, piece))
        return True

    def _take(self) -> _Progress | None:
        """Wait for the copy whose turn it is and take it from its queue; None when closing and all are done."""
        with self._changed:
            while True:
                for queue in self._queues.values():
                    if queue:
                        return queue.popleft()
                if self._closing:
                    return None
                self._changed.wait()

    def _start(self, progress: _Progress) -> bool:
        """Ask the owner whether the copy is still wanted."""
        if not progress.copy.owner.start():
            with self._changed:
                self._depths[progress.copy.direction] -= 1
            return False
        progress.started_at = time.monotonic()
        progress.next_piece = next(progress.pieces, None)
        return True

    def _hand_out(self, progress: _Progress) -> Spans | None:
        """Take the next piece, unless the copy stops here, and put the copy back if there is more."""
        abandoned = progress.copy.owner.abandoned()
        following = next(progress.pieces, None)
        with self._changed:
            progress.working_count += 1
            if abandoned or self._closing:
                progress.give_up("abandoned" if abandoned else "the device was closed")
            piece = progress.next_piece
            progress.next_piece = following if piece is not None else None
            if progress.next_piece is not None:
                self._queues[progress.copy.direction].append(progress)
                self._changed.notify()
        return piece

    def _make(self, progress: _Progress, piece: Spans | None) -> Sequence[tuple[int, str]]:
        """Copy one piece; say which of its spans failed."""
        if piece is None:
            return ()
        try:
            if progress.copy_piece is None:
                progress.copy_piece = self._prepare(progress.copy)
            return progress.copy_piece(piece)
        except Exception as error:  # noqa: BLE001 - this thread makes the copies of others too
            reason = f"{type(error).__name__}: {error}"
            return [(span, reason) for span in range(len(piece))]

    def _settle(
        self, progress: _Progress, piece: Spans | None, failed: Sequence[tuple[int, str]]
    ) -> None:
        """Account for a piece; whoever accounts for the last one ends the copy."""
        copy = progress.copy
        with self._changed:
            if piece is not None:
                lost_bytes = sum(int(piece.length[span]) for span, _ in failed)
                progress.copied_bytes += piece.size_bytes - lost_bytes
                for span, reason in failed:
                    progress.fail(piece, span, reason)
            progress.working_count -= 1
            if progress.working_count or progress.next_piece is not None:
                return
            self._depths[copy.direction] -= 1
        assert progress.started_at is not None, "a piece was made of a copy that had not started"
        seconds = time.monotonic() - progress.started_at
        copy.owner.end(
            copy.rank, sorted(progress.failures.items()), progress.copied_bytes, seconds
        )
