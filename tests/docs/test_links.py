"""Links between pages lead to files and headings that exist, and every page can be reached from the index."""

from pathlib import PurePosixPath

import pytest

from docs.pages import ROOT, Link, all_pages, anchors, documentation, links, prose

INDEX = "docs/README.md"
LINKS = [link for page in all_pages() for link in links(page)]


def destination(link: Link) -> str:
    """The file a link leads to, from the root; the page itself for a bare anchor."""
    path = link.target.partition("#")[0]
    if not path:
        return link.page
    return str((ROOT / link.page).parent.joinpath(path).resolve().relative_to(ROOT))


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_a_link_leads_to_a_file_and_a_heading(link: Link) -> None:
    target = destination(link)
    assert (ROOT / target).exists()
    anchor = link.target.partition("#")[2]
    if anchor and PurePosixPath(target).suffix == ".md":
        assert anchor in anchors(target)


def test_the_index_leads_to_every_page() -> None:
    listed = {destination(link) for link in links(INDEX)}
    pages = {page for page in documentation() if not page.startswith("docs/adr/0")}
    assert pages - {INDEX} <= listed


def test_a_page_has_one_title() -> None:
    for page in documentation():
        titles = [line for line in prose(page).splitlines() if line.startswith("# ")]
        assert len(titles) == 1, page
