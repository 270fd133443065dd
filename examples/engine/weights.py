"""Decides what a Llama-type model is made of, and makes a tiny random one.

Where real weights come from is decided in `smollm`. Tensors are float32 and read-only.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Architecture:
    """The numbers that shape the model.

    Attributes:
        vocabulary_size: Token ids there are.
        context_tokens: Longest sequence the model was made for.
        hidden_dim: Width of the residual stream.
        feed_forward_dim: Width inside the feed-forward network.
        layer_count: Transformer layers.
        head_count: Query heads of a layer.
        kv_head_count: Key and value heads of a layer; each serves several query heads.
        head_dim: Elements per head.
        rope_base: Base of the rotary embedding's wavelengths.
        norm_epsilon: Added to the mean square before the root in RMSNorm.
    """

    vocabulary_size: int
    context_tokens: int
    hidden_dim: int
    feed_forward_dim: int
    layer_count: int
    head_count: int
    kv_head_count: int
    head_dim: int
    rope_base: float
    norm_epsilon: float


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Matrices are [output, input].

    Attributes:
        attention_norm: [hidden].
        query_key_value: The three projections, one below the other.
        attention_output: [hidden, heads * head_dim].
        feed_forward_norm: [hidden].
        gate_up: The gate's projection above the other one.
        down: [hidden, feed_forward].
    """

    attention_norm: Tensor
    query_key_value: Tensor
    attention_output: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model.

    Attributes:
        name: For people, and to tell its KV cache from other models'.
        version: Differs whenever the numbers differ.
        embedding: [vocabulary, hidden]; it also makes the logits.
        layers: From input to output.
        output_norm: [hidden].
    """

    name: str
    version: str
    architecture: Architecture
    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    output_norm: Tensor


TINY = Architecture(
    vocabulary_size=258,
    context_tokens=16384,
    hidden_dim=64,
    feed_forward_dim=128,
    layer_count=2,
    head_count=4,
    kv_head_count=2,
    head_dim=16,
    rope_base=10000.0,
    norm_epsilon=1e-5,
)


def random_weights(architecture: Architecture = TINY, seed: int = 0) -> Weights:
    """Make a model that says nothing sensible but always the same, for one seed."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(outputs: int, inputs: int) -> Tensor:
        return torch.randn(outputs, inputs, generator=generator) * math.sqrt(1 / inputs)

    a = architecture
    attention_dim = a.head_count * a.head_dim
    layers = tuple(
        LayerWeights(
            attention_norm=torch.ones(a.hidden_dim),
            query_key_value=matrix(attention_dim + 2 * a.kv_head_count * a.head_dim, a.hidden_dim),
            attention_output=matrix(a.hidden_dim, attention_dim),
            feed_forward_norm=torch.ones(a.hidden_dim),
            gate_up=matrix(2 * a.feed_forward_dim, a.hidden_dim),
            down=matrix(a.hidden_dim, a.feed_forward_dim),
        )
        for _ in range(a.layer_count)
    )
    return Weights(
        name="tiny-random",
        version=f"seed-{seed}",
        architecture=a,
        # Small beside what the layers add, so that the next token depends on the whole prompt.
        embedding=torch.randn(a.vocabulary_size, a.hidden_dim, generator=generator) * 0.02,
        layers=layers,
        output_norm=torch.ones(a.hidden_dim),
    )
