"""The clock that is read around every call of a ledger.

Times are processor times of the one thread: on a shared machine another process may take the processor away in the middle of
a call, and that is not the ledger's doing.
"""

import gc
import resource
import time
from array import array
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def processor_ns() -> int:
    """Processor time of this thread."""
    return time.thread_time_ns()


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest call of one name.

    Args:
        ms: its processor time.
        page_faults: pages that it was the first to touch; the kernel finds and clears them, which is part of its time.
    """

    ms: float
    page_faults: int


class CallTimes:
    """The processor times of all calls by name, in nanoseconds, and the longest of each.

    Collections of garbage are timed as well, wherever they happen; a call in which one happens pays for it.
    """

    def __init__(self) -> None:
        # The collector, which is timed as well, would walk lists of numbers.
        self.calls: dict[str, array[int]] = defaultdict(partial(array, "q"))
        self.longest: dict[str, Longest] = {}
        self._collection_began = (0, 0)

    def time(self, name: str, call: Callable[[], T]) -> T:
        """Make a call."""
        began = _now()
        result = call()
        self._add(name, began)
        return result

    def watch_collections(self) -> None:
        """From now on."""
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = _now()
        else:
            self._add(f"collection, generation {info['generation']}", self._collection_began)

    def _add(self, name: str, began: tuple[int, int]) -> None:
        ended = _now()
        took, page_faults = ended[0] - began[0], ended[1] - began[1]
        self.calls[name].append(took)
        if name not in self.longest or took > self.longest[name].ms * 1e6:
            self.longest[name] = Longest(took / 1e6, page_faults)


def _now() -> tuple[int, int]:
    """Processor time of this thread, and how often it touched a page first."""
    return processor_ns(), resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
