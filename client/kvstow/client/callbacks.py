"""Calls what an engine passed in, on a thread that must survive it."""

import logging
from collections.abc import Callable
from typing import ParamSpec

ArgumentsP = ParamSpec("ArgumentsP")

_log = logging.getLogger(__name__)


def call_back(
    function: Callable[ArgumentsP, object], *args: ArgumentsP.args, **kwargs: ArgumentsP.kwargs
) -> None:
    """Call an engine's callback; what it raises is logged and goes no further."""
    try:
        function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - foreign code must not stop the reports of all transfers
        _log.exception("a callback of the engine failed")
