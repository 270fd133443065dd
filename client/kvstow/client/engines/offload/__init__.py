"""The part of an engine's adapter that knows no engine: books, lookups, loads, stores, fences.

For engines whose KV cache is made of numbered blocks that are named by the content of their prefix.
A scheduler half (`scheduler`) lives with the engine's scheduler and owns the session; a worker half
(`worker`) lives with each rank and only attaches memory, waits and passes on. All a worker needs to
know travels in `steps.Step`, all it has to say in `steps.Report`.
"""
