"""Makes a directory that vLLM serves from the GGUF file that a package ships, once.

Run as a program, so that torch and transformers are in a process of their own:
`python -m examples.vllm_demo.conversion DIRECTORY`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.engine.package import packaged_gguf


def converted_model() -> Path:
    """The directory; made if it is not there.

    Raises:
        WeightsMissing: the package with the weights is not installed.
        subprocess.CalledProcessError: it could not be made.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kvstow")
    model = cache / packaged_gguf().stem
    if not model.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as fresh:
            made = Path(fresh, "model")
            subprocess.run([sys.executable, "-m", __name__, str(made)], check=True)
            made.rename(model)
    return model


def convert(gguf: Path, directory: Path) -> None:
    """Write weights, configuration, tokenizer and chat template."""
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=bfloat16)
    # The weights were unpacked; left in place, these two would say that they are packed still.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.save_pretrained(directory)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(directory)


if __name__ == "__main__":
    from torch import bfloat16
    from transformers import AutoModelForCausalLM, AutoTokenizer

    convert(packaged_gguf(), Path(sys.argv[1]))
