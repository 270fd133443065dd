"""What the daemon says when a session is opened, beside its name."""

from typing import NamedTuple


class Terms(NamedTuple):
    """What holds for one opening of a session; zeros before the first.

    Attributes:
        space_id: of the space in that daemon process. It is another one after the space was dropped,
            or forgotten because nobody used it; generations then begin anew.
        max_keys: how many the daemon takes in one call, over all groups.
        max_transfers: how many the session may have that have not ended, or whose report was not
            acknowledged.
    """

    space_id: int = 0
    max_keys: int = 0
    max_transfers: int = 0
