"""Decides how a model is read from GGUF, the format in which llama.cpp keeps SmolLM2.

The quantised matrices are turned into float32 once and kept in a cache directory, under the
SHA-256 of the file they came from; later starts only map that file.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gguf
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from examples.engine.text import SmolLm2Tokenizer
from examples.engine.weights import Architecture, LayerWeights, Weights

_LAYER_TENSORS = {
    "attention_norm": ("attn_norm",),
    "query_key_value": ("attn_q", "attn_k", "attn_v"),
    "attention_output": ("attn_output",),
    "feed_forward_norm": ("ffn_norm",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}


def cache_directory() -> Path:
    """Where unpacked weights are kept: `kvstow-demo` in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvstow-demo"


def load_gguf(
    source: Path, directory: Path, progress: Callable[[int, int], None]
) -> tuple[Weights, SmolLm2Tokenizer]:
    """Map an unpacked model, after unpacking it when this is the first time.

    Args:
        source: The GGUF file.
        directory: Where it is kept unpacked; made when it is not there.
        progress: Told, while unpacking, how many layers of how many are done.
    """
    version = _sha256(source)[:16]
    name = f"{source.stem}-{version}"
    weights_path = directory / f"{name}.pt"
    tokenizer_path = directory / f"{name}.tokenizer.json"
    if not (weights_path.exists() and tokenizer_path.exists()):
        directory.mkdir(parents=True, exist_ok=True)
        reader = gguf.GGUFReader(source)
        tokenizer = _read_tokenizer(reader)
        _write_whole(tokenizer_path, lambda path: tokenizer.save(str(path)))
        model = _read_model(reader, progress)
        _write_whole(weights_path, lambda path: torch.save(model, path))
    unpacked = torch.load(weights_path, mmap=True, weights_only=True)
    weights = _assemble(unpacked, source.stem, version)
    return weights, SmolLm2Tokenizer(Tokenizer.from_file(str(tokenizer_path)))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let a file appear complete or not at all, also when two engines unpack at once."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        write(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _read_model(reader: gguf.GGUFReader, progress: Callable[[int, int], None]) -> dict[str, Any]:
    architecture = _read_architecture(reader)
    source = {tensor.name: tensor for tensor in reader.tensors}
    tensors = {
        "embedding": _dequantise(source["token_embd.weight"]),
        "output_norm": _dequantise(source["output_norm.weight"]),
    }
    for layer in range(architecture.layer_count):
        for name, tensor in _read_layer(source, layer, architecture):
            tensors[f"{layer}.{name}"] = tensor
        progress(layer + 1, architecture.layer_count)
    return {"architecture": asdict(architecture), "tensors": tensors}


def _read_architecture(reader: gguf.GGUFReader) -> Architecture:
    def field(name: str) -> Any:
        return reader.fields[f"llama.{name}"].contents()

    return Architecture(
        vocabulary_size=field("vocab_size"),
        context_tokens=field("context_length"),
        hidden_dim=field("embedding_length"),
        feed_forward_dim=field("feed_forward_length"),
        layer_count=field("block_count"),
        head_count=field("attention.head_count"),
        kv_head_count=field("attention.head_count_kv"),
        head_dim=field("rope.dimension_count"),
        rope_base=field("rope.freq_base"),
        norm_epsilon=field("attention.layer_norm_rms_epsilon"),
    )


def _read_layer(
    source: Mapping[str, gguf.ReaderTensor], layer: int, architecture: Architecture
) -> Iterator[tuple[str, Tensor]]:
    """Yield the layer's tensors under the names of `LayerWeights`."""
    for name, parts in _LAYER_TENSORS.items():
        read = {part: _dequantise(source[f"blk.{layer}.{part}.weight"]) for part in parts}
        for part in ("attn_q", "attn_k"):
            if part in read:
                read[part] = _unpermute(read[part], architecture.head_dim)
        yield name, torch.cat(list(read.values()))


def _dequantise(tensor: gguf.ReaderTensor) -> Tensor:
    return torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())


def _unpermute(matrix: Tensor, head_dim: int) -> Tensor:
    """Put a head's rows back into the order of the two halves that the rotary embedding turns.

    GGUF interleaves the halves (`LlamaModel.permute` in llama.cpp's convert_hf_to_gguf.py).
    """
    heads = matrix.view(-1, head_dim // 2, 2, matrix.shape[1])
    return heads.transpose(1, 2).reshape(matrix.shape)


def _assemble(unpacked: Mapping[str, Any], name: str, version: str) -> Weights:
    architecture = Architecture(**unpacked["architecture"])
    tensors = unpacked["tensors"]
    layers = tuple(
        LayerWeights(**{part: tensors[f"{layer}.{part}"] for part in _LAYER_TENSORS})
        for layer in range(architecture.layer_count)
    )
    return Weights(
        name=name,
        version=version,
        architecture=architecture,
        embedding=tensors["embedding"],
        layers=layers,
        output_norm=tensors["output_norm"],
    )


def _read_tokenizer(reader: gguf.GGUFReader) -> Tokenizer:
    """Build the tokenizer that GGUF calls `smollm`: digits one by one, then GPT-2's byte level."""
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    vocabulary = {token: number for number, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [
        AddedToken(token, special=True, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind == gguf.TokenType.CONTROL
    ]
    tokenizer.add_special_tokens(control)
    return tokenizer
