"""The forward pass over blocks against a plain one that keeps no cache."""

import pytest
import torch
from torch import Tensor

from examples.engine.memory import KvLayout
from examples.engine.model import STEP_TOKENS, Model
from examples.engine.prefix import BLOCK_TOKENS, blocks_for
from examples.engine.weights import TINY, LayerWeights, Weights, random_weights

BLOCK_COUNT = 40
WEIGHTS = random_weights()


def plain_logits(weights: Weights, tokens: list[int]) -> Tensor:
    """Logits [position, vocabulary], written down as the papers have it, all at once."""
    hidden = weights.embedding[tokens]
    for layer in weights.layers:
        hidden = hidden + plain_attention(weights, layer, norm(hidden, layer.attention_norm))
        gate, up = (norm(hidden, layer.feed_forward_norm) @ layer.gate_up.T).chunk(2, dim=1)
        hidden = hidden + (gate * torch.sigmoid(gate) * up) @ layer.down.T
    return norm(hidden, weights.output_norm) @ weights.embedding.T


def plain_attention(weights: Weights, layer: LayerWeights, hidden: Tensor) -> Tensor:
    """Causal attention, one query head after the other."""
    shape = weights.architecture
    heads = (hidden @ layer.query_key_value.T).view(len(hidden), -1, shape.head_dim).unbind(1)
    query_heads = heads[: shape.head_count]
    key_heads = heads[shape.head_count : -shape.kv_head_count]
    value_heads = heads[-shape.kv_head_count :]
    future = torch.ones(len(hidden), len(hidden), dtype=torch.bool).triu(1)
    attended = []
    for number, query in enumerate(query_heads):
        group = number * shape.kv_head_count // shape.head_count
        key = turn(key_heads[group], shape.rope_base)
        scores = turn(query, shape.rope_base) @ key.T / shape.head_dim**0.5
        attended.append(scores.masked_fill(future, float("-inf")).softmax(1) @ value_heads[group])
    return torch.cat(attended, dim=1) @ layer.attention_output.T


def turn(head: Tensor, base: float) -> Tensor:
    """The rotary embedding as a multiplication of complex numbers."""
    half = head.shape[1] // 2
    wavelengths = base ** (torch.arange(half) / half)
    angles = torch.arange(len(head)).unsqueeze(1) / wavelengths
    turned = torch.complex(head[:, :half], head[:, half:]) * torch.polar(
        torch.ones_like(angles), angles
    )
    return torch.cat((turned.real, turned.imag), dim=1)


def norm(hidden: Tensor, weight: Tensor) -> Tensor:
    mean_square = hidden.square().mean(1, keepdim=True)
    return hidden / (mean_square + TINY.norm_epsilon).sqrt() * weight


def random_tokens(count: int, seed: int = 1) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, TINY.vocabulary_size, (count,), generator=generator).tolist()


def scattered_table(token_count: int, seed: int = 2) -> list[int]:
    """Blocks for so many tokens, in no order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(BLOCK_COUNT, generator=generator)[: blocks_for(token_count)].tolist()


def empty_cache() -> Tensor:
    return torch.zeros(KvLayout.for_model(TINY, BLOCK_COUNT).shape)


LENGTHS = [1, BLOCK_TOKENS, STEP_TOKENS - 1, STEP_TOKENS, STEP_TOKENS + 1, 3 * STEP_TOKENS + 5]


@pytest.mark.parametrize("length", LENGTHS)
def test_prefill_computes_what_a_plain_forward_pass_computes(length: int) -> None:
    tokens = random_tokens(length)
    model = Model(WEIGHTS, empty_cache())
    logits = model.prefill(tokens, scattered_table(length), cached_tokens=0)
    torch.testing.assert_close(logits, plain_logits(WEIGHTS, tokens)[-1], atol=1e-3, rtol=1e-4)


def test_decode_computes_what_a_plain_forward_pass_computes() -> None:
    tokens = random_tokens(STEP_TOKENS + 40)
    table = scattered_table(len(tokens))
    model = Model(WEIGHTS, empty_cache())
    plain = plain_logits(WEIGHTS, tokens)
    model.prefill(tokens[:STEP_TOKENS], table, cached_tokens=0)
    for position in range(STEP_TOKENS, len(tokens)):
        logits = model.decode(tokens[position], position, table)
        torch.testing.assert_close(logits, plain[position], atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("cached_blocks", range(1, 2 * STEP_TOKENS // BLOCK_TOKENS + 1))
def test_a_cached_prefix_changes_no_bit_and_is_not_written(cached_blocks: int) -> None:
    tokens = random_tokens(2 * STEP_TOKENS + 9)
    table = scattered_table(len(tokens))
    cache = empty_cache()
    model = Model(WEIGHTS, cache)
    cold = model.prefill(tokens, table, cached_tokens=0)
    complete = cache.clone()

    cache[:, table[cached_blocks:]] = 0
    warm = model.prefill(tokens, table, cached_tokens=cached_blocks * BLOCK_TOKENS)
    assert torch.equal(warm, cold)
    assert torch.equal(cache, complete)


def test_only_rows_behind_the_cached_ones_are_written() -> None:
    tokens = random_tokens(STEP_TOKENS)
    table = scattered_table(len(tokens))
    cache = empty_cache()
    Model(WEIGHTS, cache).prefill(tokens, table, cached_tokens=2 * BLOCK_TOKENS)
    assert not cache[:, table[:2]].any()
    assert cache[:, table[2:]].flatten(3).any(3).all()
    unused = sorted(set(range(BLOCK_COUNT)) - set(table))
    assert not cache[:, unused].any()


def test_keys_and_values_depend_on_the_prefix_alone() -> None:
    """To the bit: else two engines that share a document would not agree on its blocks."""
    document = random_tokens(STEP_TOKENS + 3 * BLOCK_TOKENS)
    caches = []
    for seed, length in ((3, 7), (4, 2 * STEP_TOKENS)):
        cache = empty_cache()
        tokens = document + random_tokens(length, seed)
        table = scattered_table(len(tokens))
        Model(WEIGHTS, cache).prefill(tokens, table, cached_tokens=0)
        caches.append(cache[:, table[: blocks_for(len(document))]])
    assert torch.equal(*caches)
