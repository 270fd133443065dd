"""Reads from vLLM's scheduler output which blocks the workers write in a step."""

from vllm.v1.core.sched.output import SchedulerOutput

from kvstow.client.engines.offload.engine import Written
from kvstow.client.engines.offload.shape import Shape


def written_blocks(output: SchedulerOutput, shape: Shape) -> Written:
    """What was handed out in this step, and what is copied and zeroed first.

    A request that begins or resumes brings its whole block table; what lies before its computed
    tokens holds KV already and is only read.
    """
    handed_out: list[int] = []
    for request in output.scheduled_new_reqs:
        handed_out += _unwritten(request.block_ids, request.num_computed_tokens, shape)
    cached = output.scheduled_cached_reqs
    for request_id, tables, computed in zip(
        cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True
    ):
        if tables is not None:
            is_whole = request_id in cached.resumed_req_ids
            handed_out += _unwritten(tables, computed if is_whole else 0, shape)
    copies = {copy.dst_block_id: copy.src_block_id for copy in output.kv_cache_block_copies or ()}
    return Written(
        handed_out=[block for block in handed_out if block != shape.null_block],
        copied_from=copies,
        zeroed=[*(output.new_block_ids_to_zero or ()), *copies],
    )


def _unwritten(tables: tuple[list[int], ...], computed_tokens: int, shape: Shape) -> list[int]:
    return [
        block
        for table, group in zip(tables, shape.groups, strict=True)
        for block in table[computed_tokens // group.block_tokens :]
    ]
