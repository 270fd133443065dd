"""docs/quickstart.md: a newcomer who types what it says gets what it shows."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from docs.elsewhere import entry_for
from docs.pages import Block, blocks
from docs.session import LIMIT_S, Checkout, Typed

PAGE = "docs/quickstart.md"
PROMETHEUS = "prometheus"

pytestmark = pytest.mark.timeout(LIMIT_S + 20)


def typed_blocks() -> list[Block]:
    """What is run here, in order."""
    return [block for block in blocks(PAGE) if block.is_commands and entry_for(block) is None]


def shown_after(block: Block) -> list[str]:
    """The lines that the page shows right after a block."""
    following = next((one for one in blocks(block.page) if one.line > block.line), None)
    if following is None or following.language != "text":
        return []
    return following.text.splitlines()


def check(checkout: Checkout, typed: Sequence[Typed]) -> None:
    for one in typed:
        for line in shown_after(one.block):
            assert one.shows(line), (
                f"{one.block} does not show {line!r}:\n{one.output}\n{checkout.logs()}"
            )
    assert any(shown_after(one.block) for one in typed)


def test_a_daemon_and_a_load_run_and_the_daemon_may_go_meanwhile(tmp_path: Path) -> None:
    without = [block for block in typed_blocks() if PROMETHEUS not in block.text]
    with Checkout(tmp_path) as checkout:
        check(checkout, checkout.type(without))


@pytest.mark.prometheus
def test_the_whole_page_leads_to_the_figures_of_the_dashboards(tmp_path: Path) -> None:
    with Checkout(tmp_path) as checkout:
        check(checkout, checkout.type(typed_blocks()))
