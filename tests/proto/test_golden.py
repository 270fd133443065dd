"""The bytes of version 1 are fixed: what old clients send and expect stays readable and unchanged.

golden.txt holds examples: a message type, a message as text, a line of dashes, its bytes. An entry
is never changed; a new message or field gets a new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf import message_factory, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from kvstow.v1 import (
    admin_pb2,
    cache_pb2,
    debug_pb2,
    errors_pb2,
    identity_pb2,
    reset_pb2,
    transfer_pb2,
)

FILES = (identity_pb2, transfer_pb2, errors_pb2, reset_pb2, cache_pb2, admin_pb2, debug_pb2)
TYPES: dict[str, Descriptor] = {
    described.full_name: described
    for file in FILES
    for described in file.DESCRIPTOR.message_types_by_name.values()
}
EMPTY = "(empty)"


@dataclass(frozen=True)
class Example:
    type_name: str
    text: str
    wire: bytes

    def parsed(self) -> Message:
        return text_format.Parse(self.text, self.new())

    def new(self) -> Message:
        return message_factory.GetMessageClass(TYPES[self.type_name])()


def read_examples() -> Iterator[Example]:
    entries = Path(__file__).with_name("golden.txt").read_text(encoding="utf-8").split("\n\n")
    for entry in entries:
        type_name, text, dashes, wire = entry.strip().splitlines()
        assert dashes == "----"
        yield Example(type_name, text.replace(EMPTY, ""), bytes.fromhex(wire.replace(EMPTY, "")))


EXAMPLES = list(read_examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.type_name))
def test_a_message_has_its_bytes(example: Example) -> None:
    assert example.parsed().SerializeToString(deterministic=True).hex() == example.wire.hex()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.type_name))
def test_the_bytes_have_their_message(example: Example) -> None:
    message = example.new()
    message.ParseFromString(example.wire)
    assert message == example.parsed()


def fields_set(message: Message) -> set[str]:
    return {field.name for field, _ in message.ListFields()}


@pytest.mark.parametrize("type_name", TYPES)
def test_every_field_of_every_message_has_an_example(type_name: str) -> None:
    shown: set[str] = set()
    for example in EXAMPLES:
        if example.type_name == type_name:
            shown |= fields_set(example.parsed())
    assert any(example.type_name == type_name for example in EXAMPLES)
    assert shown == {field.name for field in TYPES[type_name].fields}


def test_keys_and_blocks_travel_as_arrays() -> None:
    """1,000 blocks cost their keys, a few bytes per id, and next to nothing else."""
    blocks = cache_pb2.GroupBlocks(group=1, keys=bytes(32 * 1000), blocks=range(1000))
    assert blocks.ByteSize() < 34 * 1000 + 20
    described = cache_pb2.GroupBlocks.DESCRIPTOR.fields_by_name["blocks"]
    assert described.type == FieldDescriptor.TYPE_UINT32


def test_our_error_messages_read_as_those_of_google_rpc() -> None:
    """Field numbers and types of google.rpc.Status and ErrorInfo, written out by hand."""
    status = bytes([0x08, 9, 0x12, 2, *b"no", 0x1A, 8, 0x0A, 3, *b"url", 0x12, 1, 7])
    read = errors_pb2.Status.FromString(status)
    assert (read.code, read.message) == (9, "no")
    assert (read.details[0].type_url, read.details[0].value) == ("url", bytes([7]))
    info = bytes([0x0A, 1, *b"R", 0x12, 1, *b"d", 0x1A, 6, 0x0A, 1, *b"k", 0x12, 1, *b"v"])
    named = errors_pb2.ErrorInfo.FromString(info)
    assert (named.reason, named.domain, dict(named.metadata)) == ("R", "d", {"k": "v"})
