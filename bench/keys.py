"""Keys of blocks, by number."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

KEY_BYTES = 32
Numbers: TypeAlias = npt.NDArray[np.int64]


class Keys:
    """Random keys, packed as they arrive in a message: key objects are made when they are asked for.

    Args:
        count: keys there are.
        seed: other keys for another seed.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        packed = np.random.default_rng(seed).bytes(count * KEY_BYTES)
        self._packed = np.frombuffer(packed, dtype=f"V{KEY_BYTES}")

    def fresh(self, numbers: Numbers) -> list[bytes]:
        """New objects, whose hash nobody has computed yet."""
        keys: list[bytes] = self._packed[numbers].tolist()
        return keys
