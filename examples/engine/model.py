"""Decides how keys, values and logits are computed: a Llama forward pass over a blocked KV cache.

The prompt is computed in steps of STEP_TOKENS rows that begin at multiples of STEP_TOKENS, the
last one filled up with rows nobody reads. So every matrix product has the same shape whatever was
cached before and whatever follows, and a token's keys and values come out the same, to the bit,
in every request that shares its prefix. A step that begins inside a cached prefix computes the
cached rows again but writes only the others.

Which blocks a sequence has is decided in `engine`. One thread only.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from examples.engine.prefix import BLOCK_TOKENS, blocks_for
from examples.engine.weights import LayerWeights, Weights

STEP_TOKENS = 64


class Model:
    """A model bound to the KV cache it reads and writes.

    Args:
        weights: The model.
        cache: [layer, block, 2, token in block, KV head, element], as `memory` lays it out.
    """

    def __init__(self, weights: Weights, cache: Tensor) -> None:
        self._weights = weights
        self._cache = cache
        self._cosine, self._sine = _rotary_tables(weights)

    @torch.inference_mode()
    def prefill(
        self,
        tokens: Sequence[int],
        table: Sequence[int],
        *,
        cached_tokens: int,
        progress: Callable[[int], None] | None = None,
    ) -> Tensor:
        """Compute a prompt's keys and values from `cached_tokens` on, and its next logits.

        Args:
            tokens: The whole prompt.
            table: Block ids of the sequence, enough for the prompt.
            cached_tokens: Leading tokens whose keys and values are in the cache already; less
                than the prompt has, since the last token's row makes the logits.
            progress: Told after each step how many tokens of the prompt are done.

        Returns:
            Logits [vocabulary] of the token after the prompt.
        """
        assert cached_tokens < len(tokens)
        hidden = torch.empty(0)
        start = 0
        for start in range(cached_tokens // STEP_TOKENS * STEP_TOKENS, len(tokens), STEP_TOKENS):
            end = min(start + STEP_TOKENS, len(tokens))
            rows = [*tokens[start:end], *[0] * (start + STEP_TOKENS - end)]
            written = range(max(start, cached_tokens), end)
            hidden = self._forward(rows, start, table, written)
            if progress is not None:
                progress(end)
        return self._logits(hidden[len(tokens) - 1 - start])

    @torch.inference_mode()
    def decode(self, token: int, position: int, table: Sequence[int]) -> Tensor:
        """Add one token at a position to the sequence; return the logits [vocabulary] after it."""
        hidden = self._forward([token], position, table, range(position, position + 1))
        return self._logits(hidden[0])

    def _forward(
        self, rows: Sequence[int], start: int, table: Sequence[int], written: range
    ) -> Tensor:
        """Run rows at positions start, start + 1, …; keep keys and values of those in `written`."""
        end = start + len(rows)
        visible = torch.arange(end) <= torch.arange(start, end).unsqueeze(1)
        # Rows beyond the sequence may point anywhere: no row that is read can see them.
        filled = [*table, *[table[0]] * blocks_for(end)][: blocks_for(end)]
        blocks = torch.tensor(filled)
        kept = torch.arange(written.start, written.stop)
        places = (blocks[kept // BLOCK_TOKENS], kept % BLOCK_TOKENS)
        kept_rows = slice(written.start - start, written.stop - start)
        rotation = (self._cosine[start:end], self._sine[start:end])

        hidden = functional.embedding(torch.tensor(rows), self._weights.embedding)
        for layer, cache in zip(self._weights.layers, self._cache, strict=True):
            query, key, value = self._project(layer, hidden, rotation)
            cache[:, 0][places] = key[kept_rows]
            cache[:, 1][places] = value[kept_rows]
            keys = cache[:, 0][blocks].flatten(0, 1)[:end]
            values = cache[:, 1][blocks].flatten(0, 1)[:end]
            attended = functional.scaled_dot_product_attention(
                query.transpose(0, 1).unsqueeze(0),
                keys.transpose(0, 1).unsqueeze(0),
                values.transpose(0, 1).unsqueeze(0),
                attn_mask=visible,
                enable_gqa=True,
            )
            attended = attended[0].transpose(0, 1).flatten(1)
            hidden = hidden + functional.linear(attended, layer.attention_output)
            hidden = hidden + self._feed_forward(layer, hidden)
        return hidden

    def _project(
        self, layer: LayerWeights, hidden: Tensor, rotation: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Make rotated queries, rotated keys, and values, each [row, head, element]."""
        shape = self._weights.architecture
        mixed = functional.linear(self._norm(hidden, layer.attention_norm), layer.query_key_value)
        heads = mixed.view(len(hidden), -1, shape.head_dim)
        query = heads[:, : shape.head_count]
        key = heads[:, shape.head_count : -shape.kv_head_count]
        value = heads[:, -shape.kv_head_count :]
        return _rotate(query, *rotation), _rotate(key, *rotation), value

    def _feed_forward(self, layer: LayerWeights, hidden: Tensor) -> Tensor:
        normed = self._norm(hidden, layer.feed_forward_norm)
        gate, up = functional.linear(normed, layer.gate_up).chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, layer.down)

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        epsilon = self._weights.architecture.norm_epsilon
        return functional.rms_norm(hidden, weight.shape, weight, epsilon)

    def _logits(self, hidden: Tensor) -> Tensor:
        normed = self._norm(hidden, self._weights.output_norm)
        return functional.linear(normed, self._weights.embedding)


def _rotary_tables(weights: Weights) -> tuple[Tensor, Tensor]:
    """Cosines and sines [position, 1, head_dim] of the rotary embedding (Su et al., 2021).

    There are STEP_TOKENS more positions than the context has, for the rows that fill a last step.
    """
    shape = weights.architecture
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    positions = torch.arange(shape.context_tokens + STEP_TOKENS, dtype=torch.float32)
    angles = torch.outer(positions, shape.rope_base**-exponents).repeat(1, 2).unsqueeze(1)
    return angles.cos(), angles.sin()


def _rotate(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn each head's first half against its second half by the position's angles."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cosine + torch.cat((-second, first), dim=-1) * sine
