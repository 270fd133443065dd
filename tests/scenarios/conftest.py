"""The option that writes outcomes instead of comparing them."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the outcomes of the scenario scripts as they come; review the difference",
    )
