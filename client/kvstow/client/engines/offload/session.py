"""What the scheduler half asks of a session; `kvstow.client.Session` is one."""

from typing import Protocol

from kvstow.client.counters import Counters
from kvstow.client.hits import Blocks, Hits, Keys
from kvstow.client.lookups import Hold
from kvstow.client.resets import ResetResult
from kvstow.client.standing import Generation, Snapshot
from kvstow.client.transfer import Transfer


class CacheSession(Protocol):
    """See `kvstow.client.Session` for each."""

    def snapshot(self) -> Snapshot: ...
    def counters(self) -> Counters: ...
    def lookup(
        self,
        request: str,
        keys: Keys,
        *,
        hold: Hold = ...,
        want_states: bool = ...,
        budget_s: float | None = ...,
    ) -> Hits: ...
    def store(self, keys: Keys, blocks: Blocks, generation: Generation) -> Transfer: ...
    def load(self, keys: Keys, blocks: Blocks, hits: Hits) -> Transfer: ...
    def release(self, *requests: str) -> None: ...
    def cancel(self, *transfers: Transfer) -> None: ...
    def reset(self) -> ResetResult: ...
    def close(self, wait_s: float = ...) -> bool: ...
