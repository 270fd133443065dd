"""docs/security.md: its example leads to a daemon that knows its callers, and refuses the others."""

from pathlib import Path

import pytest

from docs.elsewhere import entry_for
from docs.pages import blocks
from docs.session import LIMIT_S, Checkout
from docs.test_quickstart import check

PAGE = "docs/security.md"

pytestmark = pytest.mark.timeout(LIMIT_S + 20)


def test_the_example_runs_and_shows_what_the_page_says(tmp_path: Path) -> None:
    commands = [one for one in blocks(PAGE) if one.is_commands and entry_for(one) is None]
    with Checkout(tmp_path) as checkout:
        check(checkout, checkout.type(commands))
