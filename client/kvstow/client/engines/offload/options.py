"""What a user may set, and what is said to a user who sets something else. Pure."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import PurePath

from kvstow.client.calls import Budgets


class Mode(Enum):
    """When blocks are offered to the daemon.

    EAGER: as soon as they are computed. LAZY: shortly before the engine evicts them.
    """

    EAGER = "eager"
    LAZY = "lazy"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a connector, as an engine's configuration gives them.

    Attributes:
        target: where the daemon is; empty for the socket of this user's daemon.
        mode: "eager" or "lazy".
        offload_prompt_only: blocks with generated tokens are not offered.
        tenant: whose cache it is; tenants never share.
        weights_version: engines with different ones never share.
        name: of the engine, for people; empty for one that is made up.
        memory_path: directory on tmpfs that a KV cache in host memory lies in; empty for /dev/shm.
        lookup_budget_ms: how long a lookup may keep the scheduler waiting.
        transfer_budget_ms: how long the daemon may take to accept a store or a load.
        lazy_blocks: in lazy mode, how many blocks from the head of the free queue are offered; 0
            for twice what one step can fill.
    """

    target: str = ""
    mode: str = Mode.EAGER.value
    offload_prompt_only: bool = False
    tenant: str = ""
    weights_version: str = ""
    name: str = ""
    memory_path: str = ""
    lookup_budget_ms: float = 50.0
    transfer_budget_ms: float = 200.0
    lazy_blocks: int = 0

    @property
    def budgets(self) -> Budgets:
        """The budgets as a client takes them."""
        return Budgets(
            lookup_s=self.lookup_budget_ms / 1000, transfer_s=self.transfer_budget_ms / 1000
        )

    @property
    def is_lazy(self) -> bool:
        """Whether blocks are offered before they are evicted, not when they are computed."""
        return self.mode == Mode.LAZY.value


_KINDS: Mapping[type, type | tuple[type, ...]] = {
    str: str,
    bool: bool,
    float: (int, float),
    int: int,
}


def parse_options(given: Mapping[str, object]) -> Options:
    """Options from an engine's configuration.

    Raises:
        ValueError: a name is unknown, or a value is none that the option can have.
    """
    known = {field.name: field for field in fields(Options)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(_unknown(name, list(known)))
        kind = type(known[name].default)
        if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"option {name!r} must be a {kind.__name__}, not {value!r}")
    options = Options(**given)  # type: ignore[arg-type]  # their types were checked just now
    modes = [mode.value for mode in Mode]
    if options.mode not in modes:
        raise ValueError(f"option 'mode' must be one of {modes}, not {options.mode!r}")
    if min(options.lookup_budget_ms, options.transfer_budget_ms) <= 0 or options.lazy_blocks < 0:
        raise ValueError("budgets must be above 0 ms, and lazy_blocks not below 0")
    if options.memory_path and not PurePath(options.memory_path).is_absolute():
        raise ValueError(f"option 'memory_path' must be absolute, not {options.memory_path!r}")
    return options


def _unknown(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"unknown option {name!r}: {hint}There are: {', '.join(known)}"
