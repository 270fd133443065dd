"""Random models of about 1 MB, as directories that vLLM loads.

Decided here: shapes small enough for a test, and weights wide enough that the next token depends on every block before
it, so that wrong KV shows in the tokens. A model is made once into the cache directory; the same seed makes the same.
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 1024
BLOCK_TOKENS = 32
WINDOW_TOKENS = 64
_CACHE = Path(tempfile.gettempdir(), f"kvstow-tiny-models-{os.getuid()}")
_SPREAD = 0.2
_RANK = 8


def tiny_llama(seed: int = 0) -> Path:
    """Two layers of full attention."""
    return _made(f"llama-{seed}", seed)


def tiny_windowed(seed: int = 0) -> Path:
    """Two layers of full attention and two of sliding windows: two KV cache groups."""
    kinds = ["full_attention", "sliding_attention"] * 2
    return _made(
        f"windowed-{seed}",
        seed,
        num_hidden_layers=len(kinds),
        layer_types=kinds,
        sliding_window=WINDOW_TOKENS,
    )


def tiny_adapter(seed: int = 1) -> Path:
    """A LoRA adapter for `tiny_llama`."""
    made = _CACHE / f"adapter-{seed}"
    if not made.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as fresh:
            Path(fresh, "adapter").mkdir()
            _make_adapter(Path(fresh, "adapter"), seed)
            _keep(Path(fresh, "adapter"), made)
    return made


def _make_adapter(directory: Path, seed: int) -> None:
    torch.manual_seed(seed)
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": _RANK,
        "lora_alpha": _RANK,
        "target_modules": ["q_proj", "v_proj"],
    }
    (directory / "adapter_config.json").write_text(json.dumps(settings))
    tensors = {}
    for layer in range(2):
        for name, width in (("q_proj", 128), ("v_proj", 64)):
            stem = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            tensors[f"{stem}.lora_A.weight"] = _SPREAD * torch.randn(_RANK, 128)
            tensors[f"{stem}.lora_B.weight"] = _SPREAD * torch.randn(width, _RANK)
    save_file(tensors, directory / "adapter_model.safetensors")


def _made(name: str, seed: int, **changes: object) -> Path:
    made = _CACHE / name
    if not made.exists():
        _CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_CACHE) as fresh:
            _make(Path(fresh, name), seed, changes)
            _keep(Path(fresh, name), made)
    return made


def _keep(fresh: Path, made: Path) -> None:
    """Give a directory its name; another run of the tests may have made the same meanwhile."""
    try:
        fresh.rename(made)
    except OSError:
        if not made.exists():
            raise


def _make(directory: Path, seed: int, changes: dict[str, object]) -> None:
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 2048,
        "initializer_range": _SPREAD,
        "dtype": "float32",
    }
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**shape, **changes}))
    model.save_pretrained(directory)
