"""What is confirmed to be computed, and what is not although the engine has given it a name."""

from collections.abc import Sequence

import pytest

from engines.request import Request
from kvstow.client.engines.offload.blocks import EngineBlocks
from kvstow.client.engines.offload.progress import Progress
from kvstow.client.engines.offload.requests import Tracked
from kvstow.client.engines.offload.shape import GroupShape, Shape

SHAPE = Shape((GroupShape(2),), hash_tokens=2, block_count=20)
PROMPT_TOKENS = 10


class Books:
    """Requests of which steps are planned and end, and what is known of their blocks."""

    def __init__(self) -> None:
        self.blocks = EngineBlocks(SHAPE.block_count)
        self.progress = Progress(SHAPE, self._table, self.blocks)
        self.requests: dict[str, Tracked] = {}
        self._tables: dict[str, list[list[int]]] = {}

    def add(self, table: Sequence[int]) -> Request:
        """A request that has blocks."""
        name = str(len(self._tables) + 1)
        request = Request(name, bytes(PROMPT_TOKENS), 0, False, [], PROMPT_TOKENS)
        request.block_hashes = [bytes([end]) for end in range(2, PROMPT_TOKENS + 5, 2)]
        request.tables = self._tables[name] = [list(table)]
        self.requests[name] = Tracked(request)
        return request

    def begin(self, request: Request, cached_tokens: int = 0) -> None:
        """It was admitted, with so many tokens that the engine has by their names."""
        request.num_computed_tokens = cached_tokens
        self.progress.admit(self.requests[request.request_id], request.tables)
        self.progress.begin()

    def plan(self, request: Request, count: int) -> None:
        """A step is planned that computes so many tokens."""
        request.num_computed_tokens += count
        request.num_in_flight_tokens += count

    def end(self, request: Request, count: int) -> None:
        """A step has ended that has."""
        request.num_in_flight_tokens -= count

    def confirm(self, step: int = 0) -> None:
        """See what has been computed when this step has ended."""
        self.progress.ended_step = step
        self.progress.confirm(self.requests.values())

    def leave(self, request: Request, step: int) -> None:
        """It is over; this step was the last that was planned."""
        tracked = self.requests.pop(request.request_id)
        self.progress.step = step
        self.progress.leave(tracked, request.tables, self.requests.values())

    def confirmed(self) -> set[int]:
        """Blocks that hold what they are named for."""
        keys = [bytes([end]) for end in range(2, PROMPT_TOKENS + 5, 2)]
        return {
            block
            for block in range(1, SHAPE.block_count)
            if any(self.blocks.are_confirmed([(block, (0, key))]) for key in keys)
        }

    def _table(self, name: str, group: int, start: int, stop: int) -> Sequence[int]:
        return self._tables[name][group][start:stop]


@pytest.fixture
def books() -> Books:
    """None."""
    return Books()


def test_what_a_step_computes_is_confirmed_when_it_has_ended(books: Books) -> None:
    request = books.add([1, 2, 3, 4, 5])
    books.begin(request)
    books.plan(request, 5)
    books.confirm()
    assert not books.confirmed()
    books.end(request, 5)
    books.confirm()
    assert books.confirmed() == {1, 2}


def test_requests_that_share_what_is_computed_in_the_same_step(books: Books) -> None:
    """The second one ends with that step, before anybody has looked."""
    first, second = books.add([1, 2, 3]), books.add([1, 2, 4])
    books.begin(first)
    books.begin(second, cached_tokens=4)
    for request, count in ((first, 4), (second, 2)):
        books.plan(request, count)
        books.end(request, count)
    books.leave(second, 1)
    assert books.confirmed() == {1, 2, 4}


def test_what_stands_on_a_name_alone_is_not_confirmed(books: Books) -> None:
    request = books.add([1, 2, 3])
    books.blocks.confirm([(1, (0, bytes([2])))])
    books.begin(request, cached_tokens=4)
    books.plan(request, 2)
    books.end(request, 2)
    books.confirm()
    assert books.confirmed() == {1}
    books.leave(request, 1)
    assert books.confirmed() == {1}


def test_a_block_that_was_confirmed_under_another_name(books: Books) -> None:
    """The engine has named it anew and then computed nothing into it."""
    books.blocks.confirm([(1, (0, bytes([2]))), (2, (0, b"another"))])
    request = books.add([1, 2, 3])
    books.begin(request, cached_tokens=4)
    books.plan(request, 2)
    books.end(request, 2)
    books.confirm()
    assert books.confirmed() == {1}
    assert books.blocks.may_be_stored(2, (0, b"another"), 0)
    assert not books.blocks.may_be_stored(2, (0, bytes([4])), 0)


def test_a_request_that_is_over_too_soon(books: Books) -> None:
    """What the steps under way compute of its prompt is confirmed when they have ended, and may be drafts behind it."""
    request = books.add(range(1, 9))
    books.begin(request)
    books.plan(request, PROMPT_TOKENS + 4)
    books.leave(request, step=7)
    books.confirm(6)
    assert not books.confirmed()
    books.blocks.hand_out([4], 1, step=8)
    books.confirm(7)
    assert books.confirmed() == {1, 2, 3, 5}


def test_a_request_that_is_over_too_soon_and_stands_on_a_name_alone(books: Books) -> None:
    request = books.add([1, 2, 3])
    books.begin(request, cached_tokens=2)
    books.plan(request, 4)
    books.leave(request, step=7)
    books.confirm(7)
    assert not books.confirmed()


@pytest.mark.parametrize("source", [1, 2])
def test_a_block_that_begins_as_a_copy_is_as_good_as_the_other(books: Books, source: int) -> None:
    books.blocks.confirm([(1, (0, bytes([2])))])
    request = books.add([1, 3, 4])
    books.blocks.hand_out([3], 1, 1, {3: source})
    books.begin(request, cached_tokens=3)
    books.plan(request, 3)
    books.end(request, 3)
    books.confirm()
    assert books.confirmed() == ({1, 3, 4} if source == 1 else {1})
