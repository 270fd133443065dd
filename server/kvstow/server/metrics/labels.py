"""Label values that clients choose: short, and kept to a bounded number.

A series lives as long as Prometheus keeps its data, so what counts is how many label values there ever were. The first
ones get their own; those that come when the limit is reached share one. A restart begins anew. Of tenants and models the
books do that; see `core.spaces.Accounts`.
"""

OTHER = "other"
"""What values that came too late are called."""

_SHOWN_CHARACTERS = 120


def shown(value: str) -> str:
    """A value, cut to a readable length."""
    return value[:_SHOWN_CHARACTERS]


class BoundedLabels:
    """Remembers the values of a label that it has let through; for one thread at a time.

    Args:
        limit: values that get their own.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, None] = {}

    def of(self, value: str) -> str:
        """What a value is called: itself, or OTHER."""
        if value not in self._known and len(self._known) >= self._limit:
            return OTHER
        self._known[value] = None
        return value

    def all(self) -> list[str]:
        """The values that were let through."""
        return list(self._known)
