"""A small but real inference engine: one that has a KV cache worth keeping.

It stands where vLLM would stand: it runs a Llama-type model on the CPU in float32, keeps keys and
values in blocks of shared memory, finds prefixes it has seen by a hash chain, and offers what it
computed to an external cache. It serves one request at a time, decodes greedily, and is not fast.

Read in this order: `prefix` (how a block is named), `blocks` (who owns which block), `memory`
(where the bytes lie), `external` (what a cache outside the engine must do), `stow` (how kvstow
does it), `engine` (one request from prompt to answer), then `model`, `weights`, `unpack` and
`text`. `python -m examples.engine` runs it alone, `examples.engine.serve` as a process to talk to.
"""

import os

# Read when torch is loaded. Threads that wait by spinning take the cores from those they wait for:
# beside other processes a prompt then takes up to ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
