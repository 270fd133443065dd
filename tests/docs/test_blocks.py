"""Every fenced block of the documentation is run, or says in one table why not; what can be read by a program is."""

import ast
import json
import re
import tomllib

import pytest
import yaml

from docs.elsewhere import TABLE, Elsewhere, entry_for
from docs.pages import ROOT, Block, blocks, documentation
from docs.test_operating_pages import PAGES as OPERATING
from docs.test_quickstart import PAGE as QUICKSTART
from docs.test_securing import PAGE as SECURITY

BLOCKS = [block for page in documentation() for block in blocks(page)]
RUN_HERE = {QUICKSTART, SECURITY, *OPERATING}
LANGUAGES = {"", "console", "python", "sh", "text", "toml", "yaml"}


def of(language: str) -> list[Block]:
    return [block for block in BLOCKS if block.language == language]


def to_run() -> list[Block]:
    return [block for block in BLOCKS if block.is_commands or block.language == "python"]


@pytest.mark.parametrize("block", to_run(), ids=str)
def test_a_block_is_run_here_or_is_in_the_table(block: Block) -> None:
    here = block.page in RUN_HERE and block.is_commands
    listed = entry_for(block) is not None
    assert here or listed, f"nothing runs {block}: {block.first_line}"


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: f"{entry.page}:{entry.begins}")
def test_an_entry_of_the_table_is_true(entry: Elsewhere) -> None:
    """It is needed, and what it names exists; what is said to read the page does."""
    assert any(entry_for(block) is entry for block in to_run()), "no block needs it"
    if entry.run_by:
        assert entry.page.rpartition("/")[2] in (ROOT / entry.run_by).read_text(encoding="utf-8")
    if entry.shown_by:
        assert (ROOT / entry.shown_by).exists()


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_has_a_language_that_a_test_knows(block: Block) -> None:
    assert block.language in LANGUAGES


@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_can_be_parsed_and_imports_what_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvstow"):
            module = __import__(str(node.module), fromlist=["*"])
            assert not [name.name for name in node.names if name.name not in dir(module)]


@pytest.mark.parametrize("block", [*of("toml"), *of("yaml")], ids=str)
def test_a_file_can_be_parsed(block: Block) -> None:
    assert tomllib.loads(block.text) if block.language == "toml" else yaml.safe_load(block.text)


@pytest.mark.parametrize("block", [block for block in of("sh") if "{" in block.text], ids=str)
def test_json_in_a_command_can_be_parsed(block: Block) -> None:
    for text in re.findall(r"'(\{.*?\})'", block.text, re.DOTALL):
        assert json.loads(text)
