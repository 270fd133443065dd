"""Reads vLLM's configuration: the space's identity, the shape of the blocks, where they lie.

The scheduler half and the worker halves each read their own copy of the configuration; what a
worker then finds in its real tensors must agree with it.
"""

import hashlib

from vllm.config import VllmConfig
from vllm.config.utils import hash_factors, normalize_value
from vllm.platforms import current_platform
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_utils import (
    resolve_kv_cache_block_sizes,
    resolve_none_hash_seed,
)
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    KVCacheTensor,
    MLAAttentionSpec,
    SlidingWindowSpec,
    UniformTypeKVCacheSpecs,
)

from kvstow.client import Group, GroupMemory, Identity, KeyScheme, Layout, Segment
from kvstow.client.engines.offload.options import Options
from kvstow.client.engines.offload.shape import GroupShape, Shape

LAYOUT = "LBHNC"
"""The order of dimensions in which a block of one layer is one piece of memory."""

_SAMPLE_TOKENS = (1, 2, 3)


class Unsupported(ValueError):
    """The engine's configuration is one that the connector cannot serve."""


def shape_of(config: VllmConfig, cache: KVCacheConfig) -> Shape:
    """How the blocks are made up.

    Raises:
        Unsupported: a group is neither full nor sliding-window attention, or the blocks of one
            rank are not those of another.
    """
    check_supported(config)
    _, hash_tokens = resolve_kv_cache_block_sizes(cache, config)
    return Shape(
        groups=tuple(_group_shape(group) for group in cache.kv_cache_groups),
        hash_tokens=hash_tokens,
        block_count=cache.num_blocks,
    )


def identity_of(config: VllmConfig, cache: KVCacheConfig, options: Options) -> Identity:
    """Everything that must be equal before one engine may read another's blocks."""
    model, scheme = config.model_config, config.cache_config.prefix_caching_hash_algo
    fingerprint = _fingerprint(scheme)
    shape = shape_of(config, cache)
    replicated = cache.kv_tp_replicas == config.parallel_config.tensor_parallel_size > 1
    return Identity(
        tenant=options.tenant,
        model=model.model,
        weights_version=options.weights_version or model.revision or "",
        layout=Layout(
            dtype=f"{model.dtype}/{config.cache_config.cache_dtype}",
            block_tokens=shape.align_tokens,
            world_size=config.parallel_config.world_size,
            order=_order(config, cache),
            groups=[
                Group(
                    segment_bytes=[_page_bytes(tensor) for tensor, _ in _layers(cache, group)],
                    replicated=replicated,
                )
                for group in cache.kv_cache_groups
            ],
        ),
        key_scheme=KeyScheme(
            hash_name=f"vllm/{scheme}", key_bytes=len(fingerprint), fingerprint=fingerprint
        ),
    )


def group_memory(cache: KVCacheConfig) -> list[GroupMemory]:
    """Where the blocks of each group lie in the one allocation of a rank."""
    return [
        GroupMemory(
            block_count=cache.num_blocks,
            segments=[
                Segment(
                    offset_bytes=tensor.offset + layer * tensor.layer_stride,
                    stride_bytes=tensor.block_stride,
                )
                for tensor, layer in _layers(cache, group)
            ],
        )
        for group in cache.kv_cache_groups
    ]


def allocation_bytes(cache: KVCacheConfig) -> int:
    """Size of the one allocation that holds the KV cache of a rank."""
    return int(cache.kv_cache_tensors[0].size)


def check_supported(config: VllmConfig) -> None:
    """What is known not to work is refused when the engine starts.

    Raises:
        Unsupported: the engine is configured in such a way.
    """
    parallel, speculative = config.parallel_config, config.speculative_config
    if parallel.pipeline_parallel_size > 1:
        raise Unsupported("kvstow does not support pipeline parallelism: ranks differ in layers")
    if parallel.decode_context_parallel_size > 1 or parallel.prefill_context_parallel_size > 1:
        raise Unsupported("kvstow does not support context parallelism")
    if current_platform.is_cuda() and config.model_config.enable_sleep_mode:
        raise Unsupported("kvstow does not support sleep mode: its memory cannot be exported")
    if parallel.nnodes > 1:
        raise Unsupported("kvstow does not support an engine with ranks on several nodes")
    if speculative is not None and speculative.uses_draft_kv_cache():
        # The last block that a draft has written may hold tokens that are rejected afterwards.
        raise Unsupported("kvstow does not support drafts that have a KV cache of their own")


def _group_shape(group: KVCacheGroupSpec) -> GroupShape:
    # By exact type: a subclass may keep something in its blocks that is not named by their tokens.
    spec = _spec(group)
    if type(spec) is SlidingWindowSpec:
        return GroupShape(spec.block_size, spec.sliding_window + spec.extra_retained_tokens)
    if type(spec) in (FullAttentionSpec, MLAAttentionSpec):
        return GroupShape(spec.block_size)
    raise Unsupported(
        f"kvstow does not support {type(spec).__name__}, only full and sliding-window attention"
    )


def _spec(group: KVCacheGroupSpec) -> KVCacheSpec:
    """The spec of the group; layers of a uniform type differ only in their sizes."""
    match group.kv_cache_spec:
        case UniformTypeKVCacheSpecs() as specs:
            return specs.first_spec
        case spec:
            return spec


def _layers(cache: KVCacheConfig, group: KVCacheGroupSpec) -> list[tuple[KVCacheTensor, int]]:
    """The group's layers in the order in which they are placed, as tensor and position in it."""
    names = set(group.layer_names)
    return [
        (tensor, layer)
        for tensor in cache.kv_cache_tensors
        if tensor.layers[0] in names
        for layer in range(len(tensor.layers))
    ]


def _page_bytes(tensor: KVCacheTensor) -> int:
    """Bytes of one block of one layer, with padding: the smaller step, whichever is outermost."""
    if len(tensor.layers) == 1:
        return int(tensor.block_stride)
    return int(min(tensor.layer_stride, tensor.block_stride))


def _order(config: VllmConfig, cache: KVCacheConfig) -> str:
    """What a block means beyond its bytes: layout, heads and window of each group, computation."""
    groups = map(_group_order, cache.kv_cache_groups)
    return " ".join([cache.kv_cache_layout or LAYOUT, *groups, _computation(config)])


def _computation(config: VllmConfig) -> str:
    """What else changes the KV that the same weights give: overrides, quantization, kernels."""
    model, backend = config.model_config, config.attention_config.backend
    factors = {
        "device": current_platform.device_type,
        "attention": backend.name if backend is not None else "",
        "config": normalize_value(model.hf_config),
        "quantization": normalize_value(model.quantization),
    }
    return f"config:{hash_factors(factors)[:16]}"


def _group_order(group: KVCacheGroupSpec) -> str:
    spec = _spec(group)
    shape = _group_shape(group)
    heads = f"{spec.num_kv_heads}x{spec.head_size}" if isinstance(spec, AttentionSpec) else ""
    return f"{type(spec).__name__}:{shape.block_tokens}x{heads}:{shape.window_tokens}"


def _fingerprint(scheme: str) -> bytes:
    """Key of a fixed token list, without the engine's own state, which may not exist yet.

    A scheme that is seeded at random gives another fingerprint in every engine: its keys are no use
    to others, so its space is its own.
    """
    function = get_hash_fn_by_name(scheme)
    parent = function(resolve_none_hash_seed(function))
    return bytes(function((parent, _SAMPLE_TOKENS, None)))


def engine_name(options: Options, engine_id: str | None) -> str:
    """What the daemon calls the engine, for people."""
    return options.name or f"vllm {hashlib.sha256((engine_id or '').encode()).hexdigest()[:8]}"
