"""A small but real inference engine: one that has a KV cache worth keeping.

It stands where vLLM would stand: it runs a Llama-type model on the CPU in float32, keeps keys and
values in blocks of shared memory, finds prefixes it has seen by a hash chain, and offers what it
computed to an external cache. It serves one request at a time, decodes greedily, and is not fast.

Read in this order: `prefix` (how a block is named), `blocks` (who owns which block), `memory`
(where the bytes lie), `external` (what a cache outside the engine must do), `engine` (one
request from prompt to answer), then `model`, `weights`, `smollm` and `text`.
"""
