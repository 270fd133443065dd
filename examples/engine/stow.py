"""Decides how the engine uses kvstow as its external cache; everything else is the client's.

A daemon that is away, slow or shutting down is a miss. A refusal is one too: the engine can always
compute. The engine's thread calls; futures are completed by the session's.
"""

import contextlib
import itertools
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from examples.engine.memory import KvMemory
from examples.engine.prefix import BLOCK_TOKENS, HASH_BYTES, chain_hashes
from examples.engine.weights import Weights
from kvstow.client import (
    Budgets,
    Callbacks,
    Client,
    Generation,
    Group,
    GroupMemory,
    Hits,
    Hold,
    Identity,
    KeyScheme,
    KvstowError,
    Layout,
    Refused,
    Segment,
    Session,
    Transfer,
    TransferState,
    Unreachable,
)

BUDGET_S = 0.5
"""Seconds for a lookup or a transfer: prefill takes seconds where this engine runs, so a hit is worth waiting for."""


_log = logging.getLogger(__name__)


def budgets(seconds: float) -> Budgets:
    """Wait so long for a lookup or a transfer, and for a session at least as long as clients do."""
    control_s = max(seconds, Budgets().control_s)
    return Budgets(lookup_s=seconds, transfer_s=seconds, control_s=control_s)


def open_session(
    client: Client, weights: Weights, memory: KvMemory, name: str, callbacks: Callbacks
) -> Session:
    """Open a session for an engine and attach its memory; the daemon may come later.

    Raises:
        Refused: The daemon is there and takes no session, or cannot map the memory.
    """
    identity = Identity(
        model=weights.name,
        weights_version=weights.version,
        layout=Layout(
            dtype="float32",
            block_tokens=BLOCK_TOKENS,
            world_size=1,
            order="layer,kv,token,head,element",
            groups=[Group(segment_bytes=[memory.layout.piece_bytes] * memory.layout.layer_count)],
        ),
        key_scheme=KeyScheme(
            hash_name="sha256-int32-chain",
            key_bytes=HASH_BYTES,
            fingerprint=chain_hashes(range(BLOCK_TOKENS))[0],
        ),
    )
    session = client.open(identity, name, callbacks=callbacks, must_connect=False)
    segments = [
        Segment(
            offset_bytes=layer * memory.layout.layer_bytes,
            stride_bytes=memory.layout.piece_bytes,
        )
        for layer in range(memory.layout.layer_count)
    ]
    blocks = GroupMemory(block_count=memory.layout.block_count, segments=segments)
    with contextlib.suppress(Unreachable):  # it is attached when the daemon answers
        session.attach(0, [memory.shared.region()], [blocks])
    return session


class StowCache:
    """kvstow as an `ExternalCache`.

    Args:
        session: Open or not, with the engine's memory attached.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._numbers = itertools.count(1)

    def begin(self) -> "StowRequest":
        """Announce a request; its generation is the one that is current now."""
        return StowRequest(self._session, f"request-{next(self._numbers)}")

    def count(self, hashes: Sequence[bytes]) -> int:
        """Say how many leading hashes are stored."""
        return self._session.lookup("count", hashes, hold=Hold.NONE).count

    def reset(self) -> None:
        """Reset the space; if the daemon is away, it is done when it is back."""
        try:
            self._session.reset()
        except KvstowError as error:
            _log.warning("the reset comes later: %s", error)


class StowRequest:
    """One request's dealings with kvstow; see `ExternalRequest`."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name
        self._generation = session.generation
        self._hits: Hits | None = None

    @property
    def generation(self) -> Generation:
        """The one in which everything of the request is looked up and stored."""
        return self._generation

    def lookup(self, hashes: Sequence[bytes]) -> int:
        """Ask, and have what is found kept until it is loaded."""
        try:
            hits = self._session.lookup(self._name, hashes)
        except Refused as refused:
            _log.warning("lookup: %s", refused)
            return 0
        if hits.generation != self._generation:
            # A reset came between: what is found now does not belong with what was found before.
            self._session.release(self._name)
            return 0
        self._hits = hits
        return hits.count

    def load(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> Future[bool]:
        """Load what the lookup found."""
        hits = self._hits
        assert hits is not None, "a load without a lookup"
        copy = _future(lambda: self._session.load(hashes, blocks, hits))
        self._session.release(self._name)  # only matters if the load was not accepted
        return copy

    def store(self, hashes: Sequence[bytes], blocks: Sequence[int]) -> Future[bool]:
        """Offer blocks; after a reset they are refused, since they were computed before it."""
        return _future(lambda: self._session.store(hashes, blocks, self._generation))


def _future(begin: Callable[[], Transfer]) -> Future[bool]:
    """A future that says whether the transfer was carried out in full."""
    future: Future[bool] = Future()
    try:
        transfer = begin()
    except Refused as refused:
        _log.warning("%s", refused)
        future.set_result(False)
    else:
        transfer.add_done_callback(
            lambda ended: future.set_result(ended.state is TransferState.DONE)
        )
    return future
