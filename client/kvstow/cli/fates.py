"""What became of a key, in words. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kvstow.v1 import admin_pb2

from .words import duration

WORDS: Mapping[int, str] = {
    number: name.removeprefix("KEY_FATE_").lower() for name, number in admin_pb2.KeyFate.items()
}
"""The stable word of each fate that a daemon may tell."""


@dataclass(frozen=True, slots=True)
class KeyFate:
    """What became of one key last.

    Args:
        fate: a stable word; see FATES.
        age_s: how long ago; 0 for READY, WRITING and unknown ones.
        generation: of the space at that time; of a reset, the one that it ended.
    """

    fate: str
    age_s: float
    generation: int


FATES: Mapping[str, tuple[str, str]] = {
    "ready": ("it is there", ""),
    "writing": ("a store is writing it", "look again when the store has ended"),
    "evicted": (
        "evicted {ago} ago to make room",
        "raise pool_size if that is too soon; `kvstow replay` says what would help",
    ),
    "reclaimed": (
        "evicted {ago} ago, because its piece of the pool was given to blocks of another size",
        "raise pool_size, or give the other model a daemon of its own",
    ),
    "reset": (
        "dropped {ago} ago by the reset that ended generation {generation}",
        "nothing, if the weights changed; else see who resets: `space reset` in the daemon's log",
    ),
    "load_failed": (
        "dropped {ago} ago, because a load could not read it",
        "see the daemon's log for the transfer that failed",
    ),
    "store_failed": (
        "offered, but its copy failed {ago} ago",
        "see the daemon's log for rank and reason",
    ),
    "store_abandoned": (
        "offered, but its store was abandoned {ago} ago",
        "nothing: it was cancelled, reset, or its engine ended",
    ),
    "no_space": (
        "refused {ago} ago: every block of the pool was held or being written",
        "raise pool_size, or see with `kvstow sessions` who holds so many",
    ),
    "not_admitted": (
        "offered {ago} ago and not admitted yet",
        "lower the setting admission to store earlier",
    ),
    "unknown": (
        "not offered{since}",
        "see whether the engine stores it, and whether its hashes and their seed are those of the others",
    ),
}


_THEN: Mapping[str, tuple[str, str]] = {
    "ready": (
        "it was there, but the engine's device did not answer, or a transfer of its was overdue",
        "see `kvstow transfers --stuck` and `kvstow doctor`",
    ),
    "writing": ("a store was writing it", "nothing"),
    "unknown": (
        "not offered before",
        "nothing, if the prompt is new; else see whether engines store it, with the same hashes and seed",
    ),
}
"""What is said of a key that was missing some time ago, where it is not what is said of one that is missing now."""


def reason(found: KeyFate, history_s: float | None) -> str:
    """Why a key is there, or is not.

    Args:
        history_s: how far back the daemon remembers; None if it remembers everything since it was started.
    """
    phrase, _ = FATES.get(found.fate, (found.fate, ""))
    since = (
        " since the daemon was started"
        if history_s is None
        else f" in the last {duration(history_s)}"
    )
    return phrase.format(ago=duration(found.age_s), generation=found.generation, since=since)


def advice(found: KeyFate) -> str:
    """What to do; empty if nothing."""
    return FATES.get(found.fate, ("", "install the kvstow of the daemon's version"))[1]


def reason_then(found: KeyFate) -> str:
    """Why a key was missing when a lookup asked for it."""
    return _THEN[found.fate][0] if found.fate in _THEN else reason(found, None)


def advice_then(found: KeyFate) -> str:
    """What to do about it; empty if nothing."""
    return _THEN[found.fate][1] if found.fate in _THEN else advice(found)
