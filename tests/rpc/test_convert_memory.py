"""Memory of GPUs and fences become core values, and no message whatever gets past `convert` malformed."""

from collections.abc import Callable

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.core.errors import InvalidRequest
from kvstow.server.device.handles import CudaEventHandle, CudaHandle
from kvstow.server.rpc import convert, replies
from kvstow.v1 import cache_pb2, identity_pb2
from rpc.test_convert import LAYOUT, good_identity, good_memory

GPU = "01234567-89ab-cdef-0123-456789abcdef"


def good_cuda_memory() -> cache_pb2.AttachMemoryRequest:
    request = good_memory()
    memory = cache_pb2.CudaMemory(
        gpu_uuid=GPU, allocation=bytes(range(64)), offset_bytes=512, size_bytes=4096
    )
    request.regions[0].cuda_memory.CopyFrom(memory)
    request.fences.add(gpu_uuid=GPU, event=bytes(range(64, 128)))
    return request


def test_memory_of_a_gpu_comes_with_its_fences() -> None:
    memory = convert.rank_memory(good_cuda_memory(), LAYOUT)
    assert memory.handles == (CudaHandle(GPU, bytes(range(64)), 512, 4096),)
    assert memory.fences == (CudaEventHandle(GPU, bytes(range(64, 128))),)
    assert convert.rank_memory(good_memory(), LAYOUT).fences == ()


KEPT = range(3, 8)
"""Numbers of handles that are to come, 3 for descriptors of CUDA's virtual-memory API."""


@pytest.mark.parametrize("number", KEPT)
def test_a_handle_of_a_kind_to_come_is_refused_with_what_to_do(number: int) -> None:
    assert set(KEPT).isdisjoint(cache_pb2.Region.DESCRIPTOR.fields_by_number)
    message = good_cuda_memory()
    descriptor = b"\x0a\x02fd"
    wire = bytes([number << 3 | 2, len(descriptor)]) + descriptor
    message.regions[0].CopyFrom(cache_pb2.Region.FromString(wire))
    with pytest.raises(InvalidRequest, match=r"region 0 .*: name .* cudaMalloc") as refused:
        convert.rank_memory(message, LAYOUT)
    assert refused.value.facts == {"field": "regions.handle"}


def test_a_fence_is_optional_and_may_be_the_first() -> None:
    assert convert.fence(cache_pb2.StoreRequest()) is None
    assert convert.fence(cache_pb2.StoreRequest(fence=0)) == 0
    assert convert.fence(cache_pb2.LoadRequest(fence=7)) == 7


def cuda_region(message: cache_pb2.AttachMemoryRequest) -> cache_pb2.CudaMemory:
    return message.regions[0].cuda_memory


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda m: setattr(cuda_region(m), "gpu_uuid", ""), "the GPU of region 0 is not a UUID"),
        (lambda m: setattr(cuda_region(m), "gpu_uuid", f"GPU-{GPU}"), "is not a UUID"),
        (lambda m: setattr(cuda_region(m), "gpu_uuid", GPU.upper()), "is not a UUID"),
        (lambda m: setattr(cuda_region(m), "gpu_uuid", f"{GPU}\n"), "is not a UUID"),
        (lambda m: setattr(cuda_region(m), "allocation", bytes(63)), "length of allocation is 63"),
        (lambda m: setattr(cuda_region(m), "offset_bytes", 2**63), "end of region 0"),
        (lambda m: setattr(cuda_region(m), "size_bytes", 0), "regions.size_bytes is 0"),
        (lambda m: setattr(m.fences[0], "gpu_uuid", ""), "the GPU of fence 0 is not a UUID"),
        (lambda m: setattr(m.fences[0], "event", bytes(65)), "length of fences.event is 65"),
        (
            lambda m: m.fences.extend([m.fences[0]] * convert.MAX_FENCES),
            f"number of fences is {convert.MAX_FENCES + 1}",
        ),
    ],
)
def test_malformed_memory_of_a_gpu_is_refused(
    spoil: Callable[[cache_pb2.AttachMemoryRequest], None], complaint: str
) -> None:
    message = good_cuda_memory()
    convert.rank_memory(message, LAYOUT)
    spoil(message)
    with pytest.raises(InvalidRequest, match=complaint):
        convert.rank_memory(message, LAYOUT)


def mutate(seed: bytes, cuts: list[tuple[int, bytes]]) -> bytes:
    wire = bytearray(seed)
    for at, piece in cuts:
        at %= len(wire) + 1
        wire[at : at + len(piece)] = piece
    return bytes(wire)


mutations = st.lists(
    st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), max_size=6
)


@given(mutations)
def test_no_identity_whatever_breaks_the_conversion(cuts: list[tuple[int, bytes]]) -> None:
    try:
        message = identity_pb2.Identity.FromString(
            mutate(good_identity().SerializeToString(), cuts)
        )
        converted = convert.identity(message)
    except (DecodeError, InvalidRequest):
        return
    assert convert.identity(replies.identity(converted)) == converted


@pytest.mark.parametrize("good", [good_memory, good_cuda_memory])
@given(cuts=mutations)
def test_no_memory_whatever_breaks_the_conversion(
    good: Callable[[], cache_pb2.AttachMemoryRequest], cuts: list[tuple[int, bytes]]
) -> None:
    try:
        wire = mutate(good().SerializeToString(), cuts)
        memory = convert.rank_memory(cache_pb2.AttachMemoryRequest.FromString(wire), LAYOUT)
    except (DecodeError, InvalidRequest):
        return
    for group, layout in zip(memory.groups, LAYOUT.groups, strict=True):
        assert tuple(segment.size_bytes for segment in group.segments) == layout.segment_bytes
        for segment in group.segments:
            last = segment.offset_bytes + (group.block_count - 1) * segment.stride_bytes
            assert last + segment.size_bytes < 2**63
            assert segment.region < len(memory.handles)
