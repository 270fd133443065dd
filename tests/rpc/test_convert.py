"""Messages become core values and back, and no message whatever gets past `convert` malformed."""

import math
from collections.abc import Callable

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.core.errors import InvalidRequest
from kvstow.server.core.requests import GroupMemory, Process, RankMemory
from kvstow.server.core.spans import Segment
from kvstow.server.core.types import (
    Group,
    GroupBlocks,
    GroupKeys,
    Hold,
    Identity,
    KeyScheme,
    Layout,
    TransferKind,
)
from kvstow.server.device.handles import SharedMemoryHandle
from kvstow.server.rpc import convert, replies
from kvstow.v1 import cache_pb2, identity_pb2, transfer_pb2

texts = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=20)
names = texts.filter(bool)
groups = st.builds(
    Group,
    segment_bytes=st.lists(st.integers(1, 2**40), min_size=1, max_size=4).map(tuple),
    replicated=st.booleans(),
)
layouts = st.builds(
    Layout,
    dtype=names,
    block_tokens=st.integers(1, 2**32 - 1),
    world_size=st.integers(1, convert.MAX_WORLD_SIZE),
    order=texts,
    groups=st.lists(groups, min_size=1, max_size=4).map(tuple),
)
identities = st.builds(
    Identity,
    tenant=texts,
    model=names,
    weights_version=texts,
    layout=layouts,
    key_scheme=st.builds(
        KeyScheme,
        hash_name=names,
        key_bytes=st.integers(1, convert.MAX_KEY_BYTES),
        fingerprint=st.binary(max_size=convert.MAX_FINGERPRINT_BYTES),
    ),
)
LAYOUT = Layout("f32", 16, 2, "", (Group((100, 50)), Group((8,), replicated=True)))


def good_identity() -> identity_pb2.Identity:
    scheme = KeyScheme("sha256", 32, b"")
    return replies.identity(Identity("", "model", "", LAYOUT, scheme))


def good_memory() -> cache_pb2.AttachMemoryRequest:
    shared = cache_pb2.SharedMemory(path="/dev/shm/kv", offset_bytes=64, size_bytes=4096)
    segments = [
        cache_pb2.Segment(region=0, offset_bytes=0, stride_bytes=200),
        cache_pb2.Segment(region=0, offset_bytes=100, stride_bytes=200),
    ]
    return cache_pb2.AttachMemoryRequest(
        rank=1,
        regions=[cache_pb2.Region(shared_memory=shared)],
        groups=[
            cache_pb2.GroupMemory(block_count=10, segments=segments),
            cache_pb2.GroupMemory(
                block_count=7, segments=[cache_pb2.Segment(offset_bytes=3000, stride_bytes=8)]
            ),
        ],
    )


@given(identities)
def test_an_identity_survives_the_wire(identity: Identity) -> None:
    wire = replies.identity(identity).SerializeToString()
    assert convert.identity(identity_pb2.Identity.FromString(wire)) == identity


@given(st.data(), st.integers(1, 64))
def test_packed_keys_are_cut_apart(data: st.DataObject, key_bytes: int) -> None:
    keys = data.draw(st.lists(st.binary(min_size=key_bytes, max_size=key_bytes)))
    message = cache_pb2.GroupKeys(group=3, keys=b"".join(keys))
    assert convert.group_keys([message], key_bytes) == [GroupKeys(3, keys)]


def test_zero_bytes_at_the_end_belong_to_the_key() -> None:
    message = cache_pb2.GroupKeys(keys=b"\x01\0\0\0" + bytes(4))
    assert convert.group_keys([message], 4)[0].keys == [b"\x01\0\0\0", bytes(4)]


def test_blocks_keep_their_order_and_their_groups() -> None:
    messages = [
        cache_pb2.GroupBlocks(group=1, keys=b"aabb", blocks=[7, 4_000_000_000]),
        cache_pb2.GroupBlocks(group=0, keys=b"", blocks=[]),
    ]
    assert convert.group_blocks(messages, 2) == [
        GroupBlocks(1, [b"aa", b"bb"], [7, 4_000_000_000]),
        GroupBlocks(0, [], []),
    ]


@pytest.mark.parametrize("length", [1, 31, 33])
def test_a_broken_key_is_refused(length: int) -> None:
    with pytest.raises(InvalidRequest, match=f"{length} bytes of keys are not a multiple of 32"):
        convert.group_keys([cache_pb2.GroupKeys(keys=bytes(length))], 32)


def test_a_request_names_no_more_groups_than_a_layout_can_have() -> None:
    count = convert.MAX_GROUPS + 1
    with pytest.raises(InvalidRequest, match=f"number of groups is {count}"):
        convert.group_keys([cache_pb2.GroupKeys()] * count, 32)
    with pytest.raises(InvalidRequest, match=f"number of groups is {count}"):
        convert.group_blocks([cache_pb2.GroupBlocks()] * count, 32)


def test_memory_takes_the_length_of_segments_from_the_layout() -> None:
    assert convert.rank_memory(good_memory(), LAYOUT) == RankMemory(
        handles=(SharedMemoryHandle("/dev/shm/kv", 64, 4096),),
        groups=(
            GroupMemory(10, (Segment(0, 0, 200, 100), Segment(0, 100, 200, 50))),
            GroupMemory(7, (Segment(0, 3000, 8, 8),)),
        ),
    )


def test_a_process_is_optional() -> None:
    request = cache_pb2.OpenSessionRequest()
    assert convert.process(request) is None
    request.process.pid, request.process.pid_namespace = 12, 4026531836
    request.process.start_time_ticks = 77
    assert convert.process(request) == Process(12, 4026531836, 77)


def test_enumerations_are_known_or_refused() -> None:
    assert convert.hold(cache_pb2.HOLD_UNSPECIFIED) is Hold.NONE
    assert convert.hold(cache_pb2.HOLD_READY) is Hold.READY
    assert convert.kind(transfer_pb2.TRANSFER_KIND_UNSPECIFIED) is None
    assert convert.kind(transfer_pb2.TRANSFER_KIND_LOAD) is TransferKind.LOAD
    with pytest.raises(InvalidRequest, match="99 is not a hold"):
        convert.hold(99)
    with pytest.raises(InvalidRequest, match="99 is not a kind"):
        convert.kind(99)


def test_a_transfer_is_numbered_from_one() -> None:
    assert convert.transfer(1) == 1
    with pytest.raises(InvalidRequest, match="ids begin at 1"):
        convert.transfer(0)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf])
def test_a_time_is_finite_and_not_negative(value: float) -> None:
    with pytest.raises(InvalidRequest, match="wait_s is not a span of time"):
        convert.seconds(value, "wait_s")


@pytest.mark.parametrize(("asked", "given"), [(0.0, 60.0), (5.0, 5.0), (60.0, 60.0), (99.0, 60.0)])
def test_a_capped_time_is_the_limit_when_none_is_asked_for(asked: float, given: float) -> None:
    assert convert.capped_seconds(asked, "deadline_s", 60.0) == given


def clear(field: str) -> Callable[[Message], None]:
    return lambda message: message.ClearField(field)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (clear("model"), "identity.model is missing"),
        (clear("layout"), "layout.dtype is missing"),
        (clear("key_scheme"), "key_scheme.hash_name is missing"),
        (lambda m: setattr(m, "model", "m" * 1025), "identity.model has more than 1024"),
        (lambda m: setattr(m, "model", "a\nb"), "identity.model has characters that cannot be"),
        (lambda m: setattr(m, "tenant", "\x1b[2J"), "identity.tenant has characters that cannot"),
        (lambda m: setattr(m.layout, "block_tokens", 0), "layout.block_tokens is 0"),
        (lambda m: setattr(m.layout, "world_size", 0), "layout.world_size is 0"),
        (lambda m: setattr(m.layout, "world_size", 4_000_000_000), "layout.world_size is 4000"),
        (lambda m: m.layout.ClearField("groups"), "number of layout.groups is 0"),
        (lambda m: m.layout.groups.extend([m.layout.groups[0]] * 64), "number of layout.groups"),
        (lambda m: m.layout.groups.add(), "number of group.segment_bytes is 0"),
        (lambda m: m.layout.groups[0].segment_bytes.append(0), "group.segment_bytes is 0"),
        (lambda m: m.layout.groups[0].segment_bytes.append(2**63), "sum of group.segment_bytes"),
        (lambda m: setattr(m.key_scheme, "key_bytes", 0), "key_scheme.key_bytes is 0"),
        (lambda m: setattr(m.key_scheme, "key_bytes", 65), "key_scheme.key_bytes is 65"),
        (lambda m: setattr(m.key_scheme, "fingerprint", bytes(65)), "length of fingerprint"),
    ],
)
def test_a_malformed_identity_is_refused(
    spoil: Callable[[identity_pb2.Identity], None], complaint: str
) -> None:
    message = good_identity()
    convert.identity(message)
    spoil(message)
    with pytest.raises(InvalidRequest, match=complaint) as refusal:
        convert.identity(message)
    assert refusal.value.facts["field"] in str(refusal.value)


def first_region(message: cache_pb2.AttachMemoryRequest) -> cache_pb2.SharedMemory:
    return message.regions[0].shared_memory


def first_segment(message: cache_pb2.AttachMemoryRequest) -> cache_pb2.Segment:
    return message.groups[0].segments[0]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (clear("groups"), "0 groups of memory, the layout has 2"),
        (clear("regions"), "number of regions is 0"),
        (lambda m: m.regions.add(), "region 1 has no handle"),
        (
            lambda m: m.regions.extend([m.regions[0]] * convert.MAX_REGIONS),
            f"number of regions is {convert.MAX_REGIONS + 1}",
        ),
        (lambda m: setattr(first_region(m), "path", "dev/shm/kv"), "region 0 is not absolute"),
        (lambda m: setattr(first_region(m), "path", "/dev/\0"), "region 0 is not absolute"),
        (lambda m: setattr(first_region(m), "size_bytes", 0), "regions.size_bytes is 0"),
        (lambda m: setattr(first_region(m), "offset_bytes", 2**63), "end of region 0"),
        (lambda m: setattr(m.groups[0], "block_count", 0), "groups.block_count is 0"),
        (lambda m: m.groups[1].segments.add(), "2 segments of memory, the group has 1"),
        (lambda m: setattr(first_segment(m), "region", 1), "segments.region is 1"),
        (lambda m: setattr(first_segment(m), "stride_bytes", 99), "segments.stride_bytes is 99"),
        (lambda m: setattr(first_segment(m), "stride_bytes", 2**62), "end of the segments"),
        (lambda m: setattr(first_segment(m), "offset_bytes", 2**63 - 1), "end of the segments"),
    ],
)
def test_malformed_memory_is_refused(
    spoil: Callable[[cache_pb2.AttachMemoryRequest], None], complaint: str
) -> None:
    message = good_memory()
    spoil(message)
    with pytest.raises(InvalidRequest, match=complaint):
        convert.rank_memory(message, LAYOUT)


@pytest.mark.parametrize("pid", [0, 2**31])
def test_a_number_that_is_no_process_is_refused(pid: int) -> None:
    request = cache_pb2.OpenSessionRequest()
    request.process.pid = pid
    with pytest.raises(InvalidRequest, match="is not a process id"):
        convert.process(request)
