"""The KV cache of a simulated engine: what each block holds, as a value instead of bytes."""

from typing import ClassVar, NamedTuple


class Content(NamedTuple):
    """What a block holds.

    Attributes:
        group: whose KV it is.
        key: the tokens up to its end, computed so far.
        version: how many resets came before the oldest of it was computed.
    """

    group: int
    key: bytes
    version: int


class Memory:
    """The blocks.

    Attributes:
        content: by block.
        loading: blocks that the daemon writes: nobody else may touch them.
        version: how often the space was reset; of what is computed now.
    """

    GARBAGE: ClassVar[Content] = Content(-1, b"", -1)

    def __init__(self, block_count: int) -> None:
        self.content = [self.GARBAGE] * block_count
        self.loading: set[int] = set()
        self.version = 0

    def write(self, block: int, content: Content) -> None:
        """The engine computes."""
        assert block not in self.loading, f"block {block} is written under a load"
        self.content[block] = content

    def read(self, block: int) -> Content:
        """The engine attends."""
        assert block not in self.loading, f"block {block} is read under a load"
        return self.content[block]
