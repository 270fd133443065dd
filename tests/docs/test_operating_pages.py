"""The commands of the pages on operating, upgrading and of the answers, typed beside a daemon that has an engine."""

from pathlib import Path

import pytest

from docs.elsewhere import entry_for
from docs.pages import blocks
from docs.session import LIMIT_S, Checkout
from support.client_engine import connected_engine
from support.kvstowd import running_kvstowd

PAGES = ("docs/operations.md", "docs/upgrade.md", "docs/faq.md")

pytestmark = pytest.mark.timeout(LIMIT_S + 20)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    commands = [one for one in blocks(page) if one.is_commands and entry_for(one) is None]
    assert commands
    with Checkout(tmp_path) as checkout:
        directory = checkout.runtime / "kvstow"
        directory.mkdir(mode=0o700)
        address = f"127.0.0.1:{checkout.ports['9478']}"
        with (
            running_kvstowd(directory, metrics_listen=address) as daemon,
            connected_engine(daemon.target) as engine,
        ):
            engine.store([1, 2, 3], [0, 1, 2])
            engine.lookup([1, 2, 3, 4])
            checkout.type(commands)
