"""Label values that clients choose, kept to a bounded number.

A series lives as long as Prometheus keeps its data, so what counts is how many label values there ever were. The first
ones get their own; those that come when the limit is reached share one. A restart begins anew.
"""

OTHER = "other"
"""What values that came too late are called."""

_SHOWN_CHARACTERS = 120


class BoundedLabels:
    """Remembers the combinations of label values that it has let through; for one thread at a time.

    Args:
        width: values in one combination.
        limit: combinations that get their own.
    """

    def __init__(self, width: int, limit: int) -> None:
        self._other = (OTHER,) * width
        self._limit = limit
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def of(self, *values: str) -> tuple[str, ...]:
        """What these values are called: themselves, cut to a readable length, or OTHER."""
        shown = tuple(value[:_SHOWN_CHARACTERS] for value in values)
        if shown not in self._known and len(self._known) >= self._limit:
            return self._other
        return self._known.setdefault(shown, shown)

    def all(self) -> list[tuple[str, ...]]:
        """The combinations that were let through."""
        return list(self._known)
