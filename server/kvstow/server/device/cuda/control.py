"""The thread that makes all calls for one GPU but those of its copies: opening, closing, page-locking.

Others hand it work and wait for the result with a limit, so that a call that hangs keeps nobody else. What is begun too
late is not begun; what is through too late is undone, by this thread, because nobody knows of it any more.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from kvstow.server.device.base import DeviceBusyError

from .beats import Beat

ResultT = TypeVar("ResultT")


class Control:
    """Makes calls, one after the other. Any thread may call any method, this one apart.

    Args:
        name: of the thread.
        beat: shows what it is at.
    """

    def __init__(self, name: str, beat: Beat) -> None:
        self._name = name
        self._beat = beat
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def post(self, what: str, work: Callable[[], ResultT]) -> "Future[ResultT]":
        """Hand over some work; returns at once."""
        future: Future[ResultT] = Future()
        self._work.put(partial(self._do, what, work, future))
        return future

    def call(
        self,
        what: str,
        work: Callable[[], ResultT],
        limit_s: float | None,
        undo: Callable[[ResultT], None] | None = None,
    ) -> ResultT:
        """Hand over some work and wait for its result, or for what it raises.

        Args:
            what: the work, in words.
            work: makes the calls.
            limit_s: how long to wait; None: for ever.
            undo: what is to be done with a result that comes too late.

        Raises:
            DeviceBusyError: it did not come in time.
        """
        future = self.post(what, work)
        try:
            return future.result(limit_s)
        except TimeoutError:
            if not future.cancel() and undo is not None:
                future.add_done_callback(partial(self._take_back, what, undo))
            raise DeviceBusyError(f"{self._name} did not {what} within {limit_s:g} s") from None

    def close(self, limit_s: float) -> bool:
        """End the thread after what was handed to it; whether that was within `limit_s` seconds."""
        self._work.put(None)
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self._step():
            pass  # a waiting thread refers to nothing that it has worked at

    def _step(self) -> bool:
        """Do the next work; False if there will be none."""
        work = self._work.get()
        if work is not None:
            work()
        return work is not None

    def _do(self, what: str, work: Callable[[], ResultT], future: "Future[ResultT]") -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            with self._beat.during(what):
                result = work()
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it; this thread serves others too
            future.set_exception(error)
        else:
            future.set_result(result)

    def _take_back(
        self, what: str, undo: Callable[[ResultT], None], late: "Future[ResultT]"
    ) -> None:
        """Called when a late result is there, by whichever thread finds that."""
        if late.exception() is None:
            self.post(f"undo: {what}", partial(undo, late.result()))
