"""News of what was stored, and of what is gone."""

import pytest

from kvstow.client.engines.offload import account
from kvstow.client.engines.offload.account import Account, News


def test_news_are_told_once() -> None:
    books = Account(keeps_news=True)
    books.add_stored([(0, b"a"), (1, b"a")])
    assert books.take_news() == News([(0, b"a"), (1, b"a")], [])
    assert books.take_news() == News([], [])
    books.drop_all()
    assert books.take_news() == News([], [(0, b"a"), (1, b"a")])


def test_an_engine_that_runs_for_long_remembers_what_it_stored_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(account, "MAX_KNOWN", 3)
    books = Account(keeps_news=True)
    for key in (b"a", b"b", b"c", b"a", b"d"):
        books.add_stored([(0, key)])
    books.drop_all()
    assert [key for _, key in books.take_news().dropped] == [b"c", b"a", b"d"]


def test_nothing_is_kept_for_nobody() -> None:
    books = Account(keeps_news=False)
    books.add_stored([(0, b"a")])
    books.drop_all()
    assert books.take_news() == News([], [])
