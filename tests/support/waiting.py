"""Waiting for what other threads and processes do, instead of sleeping."""

import time
from collections.abc import Callable

DEADLINE_S = 60.0
"""Longer than one call takes on a busy machine; reached only when something is broken."""

LONGEST_S = 300.0
"""Longer than anything takes there, the start of a daemon included; a test may take twice this."""


def wait_for(
    condition: Callable[[], object],
    what: str,
    deadline_s: float = LONGEST_S,
    every_s: float = 0.002,
) -> None:
    """Return once `condition` holds.

    Args:
        condition: asked again and again; must not change anything.
        what: what is waited for, for the message of a failure.
        deadline_s: when to give up.
        every_s: how often to ask.
    """
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, f"in {deadline_s} s it never came to this: {what}"
        time.sleep(every_s)
