"""What is read from a trace, and what is said of one that cannot be."""

import gzip
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstow.server.replay import TraceError
from kvstow.server.replay.trace import MAX_LINE_BYTES
from replay.traces import BLOCK_TOKENS, ids_of, json_lines, line, read, trace_of

GOOD = json_lines([line([1, 2], timestamp=5)])

FOR_33_TOKENS = "for 33 tokens, which are 2 full blocks of 16 tokens; is --block-tokens right?"
NEITHER = (
    "neither a JSON object nor a CSV header with the columns timestamp, input_length, hash_ids"
)
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


def csv_lines(*lines: str) -> bytes:
    return "\n".join(["timestamp,input_length,hash_ids", *lines]).encode()


def test_only_full_blocks_count() -> None:
    short = line([], timestamp=10, input_length=BLOCK_TOKENS - 1)
    trace = read(
        json_lines(
            [
                line([1, 2, 3], timestamp=5, input_length=2 * BLOCK_TOKENS + 1),
                short,
                line([1, 2, 9], timestamp=2500),
                line([1], timestamp=2500, input_length=2 * BLOCK_TOKENS - 1),
            ]
        )
    )
    assert [ids_of(request) for request in trace.requests] == [[1, 2], [], [1, 2, 9], [1]]
    assert [request.at for request in trace.requests] == [0.005, 0.01, 2.5, 2.5]
    assert trace.prompt_tokens == 2 * BLOCK_TOKENS + 1 + 15 + 48 + 31
    assert (trace.block_count, trace.distinct_count, trace.known_count) == (6, 3, 3)
    assert (trace.ceiling, trace.longest, trace.duration_s) == (0.5, 3, 2.495)


@given(
    prompts=st.lists(st.lists(st.integers(0, 9), max_size=6, unique=True), min_size=1).filter(any)
)
def test_the_ceiling_is_what_stood_in_earlier_prompts(prompts: Sequence[Sequence[int]]) -> None:
    known_count = 0
    for number, ids in enumerate(prompts):
        earlier = set(chain.from_iterable(prompts[:number]))
        known_count += sum(set(ids[:end]) <= earlier for end in range(1, len(ids) + 1))
    trace = trace_of(prompts)
    assert trace.known_count == known_count
    assert trace.block_count == sum(map(len, prompts))
    assert trace.distinct_count == len(set(chain.from_iterable(prompts)))


@pytest.mark.parametrize(
    "content",
    [
        csv_lines("0,33,1 2", "1.5,48,1 2 3"),
        csv_lines('0,33,"1 2"', '1.5,48,"1 2 3"', ""),
        csv_lines("0,33,1 2", "1.5,48,1 2 3").replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + csv_lines("0,33,1 2", "1.5,48,1 2 3"),
        b"output_length, hash_ids, input_length, timestamp\n7,1 2,33,0\n8,1 2 3,48,1.5\n",
        b"""
        {"timestamp":0,"input_length":33,"hash_ids":[1,2]}

        {"hash_ids":[1,2,3],"type":"x","timestamp":1.5,"input_length":48}""",
    ],
)
def test_both_formats_say_the_same(content: bytes) -> None:
    trace = read(content)
    assert [ids_of(request) for request in trace.requests] == [[1, 2], [1, 2, 3]]
    assert [request.at for request in trace.requests] == [0, 0.0015]


def test_a_csv_field_may_be_as_long_as_a_prompt() -> None:
    ids = range(100_000, 130_000)
    trace = read(csv_lines(f"0,{len(ids) * BLOCK_TOKENS},{' '.join(map(str, ids))}"))
    assert ids_of(trace.requests[0]) == list(ids)


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (b'{"timestamp": 5', "Invalid JSON: EOF while parsing an object at column 15"),
        (b"nonsense", "Invalid JSON: expected ident at column 2"),
        (b"[1]", "Input should be an object, not [1]"),
        (b'{"timestamp": 5, "hash_ids": []}', "input_length: Field required"),
        (b'{"input_length": 5, "hash_ids": []}', "timestamp: Field required"),
        (b'{"timestamp": 5, "input_length": 5}', "hash_ids: Field required"),
        (
            b'{"timestamp": "5", "input_length": 5, "hash_ids": []}',
            "timestamp: Input should be a valid number, not '5'",
        ),
        (
            b'{"timestamp": 5, "input_length": 5.5, "hash_ids": []}',
            "input_length: Input should be a valid integer, not 5.5",
        ),
        (
            b'{"timestamp": 5, "input_length": 5, "hash_ids": {}}',
            "hash_ids: Input should be a valid array, not {}",
        ),
        (
            b'{"timestamp": 5, "input_length": 32, "hash_ids": [1, "a"]}',
            "hash_ids.1: Input should be a valid integer, not 'a'",
        ),
        (
            b'{"timestamp": NaN, "input_length": 5, "hash_ids": []}',
            "timestamp: Input should be a finite number, not nan",
        ),
        (
            b'{"timestamp": -1, "input_length": 5, "hash_ids": []}',
            "timestamp: Input should be greater than or equal to 0, not -1",
        ),
        (
            b'{"timestamp": 5, "input_length": -5, "hash_ids": []}',
            "input_length: Input should be greater than or equal to 0, not -5",
        ),
        (
            b'{"timestamp": 5, "input_length": 32, "hash_ids": [3, -4]}',
            "hash_ids.1: Input should be greater than or equal to 0, not -4",
        ),
        (
            b'{"timestamp": 5, "input_length": 16, "hash_ids": [18446744073709551616]}',
            "hash_ids.0: Input should be less than 18446744073709551616, not 18446744073709551616",
        ),
        (
            b'{"timestamp": 4.5, "input_length": 16, "hash_ids": [1]}',
            "timestamp: 4.5 lies before the 5 of line 1",
        ),
        (
            b'{"timestamp": 5, "input_length": 64, "hash_ids": [1, 7, 2, 7]}',
            "hash_ids: 7 stands in it twice",
        ),
        (
            b'{"timestamp": 5, "input_length": 33, "hash_ids": [1, 2, 3, 4]}',
            f"hash_ids: 4 ids {FOR_33_TOKENS}",
        ),
        (
            b'{"timestamp": 5, "input_length": 33, "hash_ids": [1]}',
            f"hash_ids: 1 ids {FOR_33_TOKENS}",
        ),
        (
            b'{"timestamp": 5, \xff',
            "byte 18 is not text (UTF-8); if the file is compressed, unpack it",
        ),
        (b" " * (MAX_LINE_BYTES + 1), "is longer than 16 MiB; is that a trace?"),
    ],
)
def test_a_malformed_line_is_named(second: bytes, complaint: str) -> None:
    with pytest.raises(TraceError) as raised:
        read(GOOD + second + b"\n" + GOOD)
    assert str(raised.value) == f"t, line 2: {complaint}"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "t: there is no request in it"),
        (b"\n \n", "t: there is no request in it"),
        (csv_lines(), "t: there is no request in it"),
        (
            json_lines([line([], input_length=15)]),
            "t: no prompt fills a block of 16 tokens",
        ),
        (
            b"when,tokens\n",
            f"t, line 1: is {NEITHER}: 'when,tokens'",
        ),
        (
            gzip.compress(GOOD),
            "t, line 1: byte 2 is not text (UTF-8); if the file is compressed, unpack it",
        ),
        (csv_lines("0,16"), "t, line 2: has 2 fields, the header names 3"),
        (csv_lines("0,16,1", '1,16,"1'), "t, line 3: is not CSV: unexpected end of data"),
        (
            csv_lines("0,16,1", "1,16.5,1"),
            f"t, line 3: input_length: {NO_INTEGER}, not '16.5'",
        ),
        (
            csv_lines("0,16,x"),
            f"t, line 2: hash_ids.0: {NO_INTEGER}, not 'x'",
        ),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(TraceError) as raised:
        read(content)
    assert str(raised.value) == complaint


@given(content=st.binary(max_size=80))
def test_no_content_is_a_bug(content: bytes) -> None:
    with pytest.raises(TraceError):
        read(content)


@given(damage=st.binary(min_size=1, max_size=3), at=st.integers(0, len(GOOD)))
def test_no_damage_is_a_bug(damage: bytes, at: int) -> None:
    """Behind what cannot be read, damage may be anything: the line is named."""
    damaged = GOOD[:at] + damage + GOOD[at + len(damage) :]
    with pytest.raises(TraceError, match=r"^t, line [2-6]: "):
        read(GOOD + damaged + b"{}\n")
