"""The blocks of a simulated engine: reference counts, a free queue in eviction order, a prefix cache."""

from collections.abc import Iterable, Mapping

Name = tuple[int, bytes]
NULL = 0


class Pool:
    """Blocks 1 to `count` - 1; block 0 stands for none."""

    def __init__(self, count: int) -> None:
        self.free = list(range(1, count))
        self._uses = [0] * count
        self._names: dict[int, Name] = {}
        self._cached: dict[Name, int] = {}

    @property
    def names(self) -> Mapping[int, Name]:
        """What each cached block holds by its name, or will when the step under way has ended."""
        return self._names

    def cached(self, name: Name) -> int | None:
        """A block that holds this."""
        return self._cached.get(name)

    def take_cached(self, block: int) -> None:
        """Use a block once more."""
        if not self._uses[block]:
            self.free.remove(block)
        self._uses[block] += 1

    def take_new(self) -> int:
        """Hand out the block that is evicted next; there must be one."""
        block = self.free.pop(0)
        self._uncache(block)
        self._uses[block] = 1
        return block

    def cache(self, name: Name, block: int) -> None:
        """The block will hold this when the step has ended."""
        if block not in self._names:
            self._names[block] = name
            self._cached.setdefault(name, block)

    def give_back(self, blocks: Iterable[int]) -> None:
        """Use blocks once less; those of a prefix's end are evicted first."""
        for block in reversed([block for block in blocks if block != NULL]):
            self._uses[block] -= 1
            if self._uses[block]:
                continue
            if block in self._names:
                self.free.append(block)
            else:
                self.free.insert(0, block)

    def reset(self) -> bool:
        """Forget what is cached, if no block is in use."""
        if any(self._uses):
            return False
        self._names.clear()
        self._cached.clear()
        return True

    def evictable(self, count: int) -> list[tuple[int, bytes, int]]:
        """Cached blocks among those that are evicted next."""
        return [
            (*self._names[block], block) for block in self.free[:count] if block in self._names
        ]

    def _uncache(self, block: int) -> None:
        name = self._names.pop(block, None)
        if name is not None and self._cached.get(name) == block:
            del self._cached[name]
