"""A lock that has the books verified by whoever leaves it, so that no step of any test goes unchecked."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from unittest import mock

from kvstow.server.core.errors import BooksError
from kvstow.server.daemon import assembly
from kvstow.server.daemon.guard import Guard


class CheckingGuard(Guard):
    """Books that contradict themselves are a bug of the daemon at once, and raised where they came to be so."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, BooksError):
            super().__exit__(kind, error, traceback)
            return
        try:
            self._ledger.check()
        except BooksError as found:
            super().__exit__(type(found), found, found.__traceback__)
            raise
        super().__exit__(kind, error, traceback)


@contextmanager
def checked_books(checked: bool = True) -> Iterator[None]:
    """Daemons that are made in the meantime have such a lock, unless `checked` says otherwise."""
    with mock.patch.object(assembly, "Guard", CheckingGuard if checked else Guard):
        yield
