"""How much is done: on a GPU, and to try the script out."""

from dataclasses import dataclass, replace

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
COUNTS = (1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes.

    Args:
        pool_bytes: of the host pool.
        exact_pieces: pieces whose bytes are compared.
        counts: blocks of one transfer.
        fence_rounds: rounds with fences; without, a fifth of them, at least ten.
        rate_pieces: pieces whose copies are timed.
        rate_bytes: what one measurement moves.
        most_blocks: of one transfer.
        multiply_s: how long matrices are multiplied.
        latency_rounds: stores of one block.
        judged: whether rates are held against the goals.
    """

    pool_bytes: int
    exact_pieces: tuple[int, ...]
    counts: tuple[int, ...]
    fence_rounds: int
    rate_pieces: tuple[int, ...]
    rate_bytes: int
    most_blocks: int
    multiply_s: float
    latency_rounds: int
    judged: bool


LATEST_BEGIN_S = 390.0
"""When nothing more is begun."""

LATEST_END_S = 460.0
"""When the process ends, whatever hangs: under 8 minutes all told."""

ON_A_GPU = Plan(
    pool_bytes=16 * GIB,
    exact_pieces=(4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB),
    counts=COUNTS,
    fence_rounds=1000,
    rate_pieces=tuple(size * KIB for size in (4, 8, 16, 24, 32, 64, 128, 256, 1024)),
    rate_bytes=2 * GIB,
    most_blocks=8192,
    multiply_s=4.0,
    latency_rounds=300,
    judged=True,
)
KERNEL_ON_A_GPU = replace(
    ON_A_GPU,
    pool_bytes=6 * GIB,
    exact_pieces=(4 * KIB, 64 * KIB),
    counts=(1, 63, 64, 65, 257),
    rate_pieces=tuple(size * KIB for size in (4, 16, 32, 64, 256)),
    rate_bytes=GIB,
    latency_rounds=100,
    judged=False,
)
DRY = Plan(
    pool_bytes=4 * MIB,
    exact_pieces=(4 * KIB,),
    counts=(1, 3, 63),
    fence_rounds=20,
    rate_pieces=(4 * KIB, 64 * KIB),
    rate_bytes=256 * KIB,
    most_blocks=16,
    multiply_s=0.2,
    latency_rounds=5,
    judged=False,
)
