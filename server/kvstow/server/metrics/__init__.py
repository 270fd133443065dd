"""What Prometheus sees.

Almost everything is read when it is asked for, from one snapshot of the books and the daemon's status (`books`); only what
no snapshot shows is counted as it happens (`observed`). `families` says what there is. Label values come from bounded sets:
states, reasons, methods; and of those that clients choose, the first so many (`labels`).
"""

from .observed import Metrics

__all__ = ["Metrics"]
