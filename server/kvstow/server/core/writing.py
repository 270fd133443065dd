"""The keys of one group in one generation that are WRITING, and which store writes each.

A key stands with the number of its store, not with the store: before Python 3.14 the garbage collector walks no dictionary that
has only bytes and numbers in it, though it walks every list and every new tuple. And the keys are kept in chapters, because one large dictionary
that grows stalls its caller for longer than a request may take.
"""

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

from .errors import BooksError
from .history import Batch, Record

CHAPTER_LIMIT = 1 << 17
"""Keys in a chapter with which it takes no more: it grows within some milliseconds."""


@dataclass(eq=False, slots=True)
class Writing:
    """The blocks that one store makes WRITING.

    A store that is abandoned makes it void: from then on none of its keys is WRITING, though they are taken out little by
    little, like its slots.

    Args:
        blocks: the slot that each key's block fills, in prefix order.
        number: its own among all of one index, never given twice.
        chapter: where its keys stand with its number.
        left: how many keys are not taken out yet.
        voided: what is to be remembered of its keys when they are taken out; None until it is void.
    """

    blocks: Mapping[bytes, int]
    number: int
    chapter: dict[bytes, int]
    left: int
    voided: Batch | None = None


class WritingKeys:
    """Which keys are WRITING.

    Attributes:
        count: how many.
    """

    __slots__ = ("_begun", "_chapters", "_last_number", "count")

    def __init__(self) -> None:
        self.count = 0
        self._last_number = 0
        self._chapters: list[dict[bytes, int]] = [{}]
        self._begun: dict[int, Writing] = {}  # by number

    def among(self, keys: Collection[bytes]) -> AbstractSet[bytes]:
        """Those of the keys that are WRITING."""
        begun, found = self._begun, set[bytes]()
        for chapter in filter(None, self._chapters):
            known = chapter.keys() & keys
            found.update(key for key in known if begun[chapter[key]].voided is None)
        return found

    def has(self, key: bytes) -> bool:
        """Whether the key is WRITING."""
        for chapter in self._chapters:
            number = chapter.get(key)
            if number is not None and self._begun[number].voided is None:
                return True
        return False

    def begin(self, blocks: Mapping[bytes, int]) -> Writing:
        """A store writes these blocks; the caller has asked whether the key of one is WRITING. If so, `publish` finds it."""
        self._last_number += 1
        begun = Writing(blocks, self._last_number, self._chapter(), len(blocks))
        begun.chapter.update(dict.fromkeys(blocks, begun.number))
        self._begun[begun.number] = begun
        self.count += len(blocks)
        return begun

    def end(self, writing: Writing, keys: Collection[bytes]) -> None:
        """These keys of a store that is not void are WRITING no more."""
        chapter, number = writing.chapter, writing.number
        for key in keys:
            if writing.voided is not None or chapter.get(key) != number:
                raise BooksError(
                    f"end of writing of key {key.hex()}, which its store does not write"
                )
            del chapter[key]
        self.count -= len(keys)
        self._taken_out(writing, len(keys))

    def void(self, writing: Writing, voided: Batch) -> None:
        """No key of a store is WRITING any more; `forget` is to be called for them later."""
        writing.voided = voided
        self.count -= writing.left

    def forget(self, writing: Writing, count: int) -> Record:
        """Take out the last `count` keys that are left of what is void, but those that another store has begun meanwhile.

        Returns:
            What is to be remembered of them.
        """
        chapter, number, left = writing.chapter, writing.number, writing.left
        if writing.voided is None:
            raise BooksError(f"{count} keys were to be forgotten of a store that is not void")
        keys = tuple(islice(writing.blocks, left - count, left))
        for key in keys:
            if chapter.get(key) == number:
                del chapter[key]
        self._taken_out(writing, count)
        return writing.voided.record(keys)

    def items(self) -> Iterator[tuple[bytes, int]]:
        """All WRITING keys with their slots; for checks only."""
        for writing in self._begun.values():
            if writing.voided is None:
                yield from self._standing(writing)

    def void_items(self) -> Iterator[tuple[bytes, Writing]]:
        """All keys that are void and not taken out yet; for checks only."""
        for writing in self._begun.values():
            if writing.voided is not None:
                yield from ((key, writing) for key, _ in self._standing(writing))

    def _standing(self, writing: Writing) -> Iterator[tuple[bytes, int]]:
        for key, slot in writing.blocks.items():
            if writing.chapter.get(key) == writing.number:
                yield key, slot

    def _chapter(self) -> dict[bytes, int]:
        """One that has room."""
        for chapter in self._chapters:
            if len(chapter) < CHAPTER_LIMIT:
                return chapter
        self._chapters.append({})
        return self._chapters[-1]

    def _taken_out(self, writing: Writing, count: int) -> None:
        writing.left -= count
        if count and not writing.left:
            del self._begun[writing.number]
