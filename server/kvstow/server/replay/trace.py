"""A trace of requests as an engine would see it, read from JSON lines or CSV.

Both formats have the fields of the trace published with Mooncake (Qin et al., "Mooncake: Trading More Storage for Less
Computation", USENIX FAST 2025): `timestamp` in milliseconds, `input_length` in tokens, and `hash_ids`, one id per block of
the prompt, equal where all tokens up to the end of the block are. Others, such as `output_length`, are not read. The first
line decides: it is a JSON object, or it names the columns of a CSV file, where the hash ids stand in one field with spaces
between them.

Decided here: what a usable line is, and which blocks of a prompt count: the full ones. The first mistake ends the reading.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from reprlib import repr as shortened
from typing import Annotated, BinaryIO

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

MAX_LINE_BYTES = 16 << 20
"""A prompt of a million blocks fits; what is longer has no lines, and is not read to its end."""

KEY_BYTES = 8


class TraceError(Exception):
    """The trace cannot be used; the message says where and what is wrong."""


class _Mistake(Exception):
    """What is wrong with one line."""


class _Line(BaseModel):
    timestamp: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    input_length: NonNegativeInt
    hash_ids: list[Annotated[int, Field(ge=0, lt=1 << 8 * KEY_BYTES)]]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt.

    Attributes:
        at: when it arrived, in seconds of the trace's clock.
        keys: of its full blocks, in prefix order.
    """

    at: float
    keys: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order of their arrival; at least one has a full block.

    Attributes:
        prompt_tokens: of all prompts together.
        block_count: full blocks of all prompts together.
        distinct_count: how many of these differ: what a pool holds in the end if it never evicts.
        known_count: of each prompt the leading blocks that stood in earlier ones: what such a pool finds.
    """

    requests: Sequence[Request]
    prompt_tokens: int
    block_count: int
    distinct_count: int
    known_count: int

    @property
    def ceiling(self) -> float:
        """Hit ratio of a pool that never evicts; no pool has a better one."""
        return self.known_count / self.block_count

    @property
    def duration_s(self) -> float:
        """From the first request to the last, in seconds."""
        return self.requests[-1].at - self.requests[0].at

    @property
    def longest(self) -> int:
        """Full blocks of the longest prompt."""
        return max(len(request.keys) for request in self.requests)


def read_trace(stream: BinaryIO, name: str, block_tokens: int) -> Trace:
    """Read a trace to its end.

    Args:
        stream: the file.
        name: what errors call it.
        block_tokens: tokens in the block that a hash id stands for.

    Raises:
        TraceError: a line is malformed, or no prompt has a full block.
    """
    reader = _Reader(block_tokens)
    lines = iter(partial(stream.readline, MAX_LINE_BYTES + 1), b"")
    try:
        for number, line in enumerate(lines, start=1):
            reader.take(number, line)
    except _Mistake as mistake:
        raise TraceError(f"{name}, line {number}: {mistake}") from None
    trace = reader.trace()
    if not trace.requests:
        raise TraceError(f"{name}: there is no request in it")
    if not trace.block_count:
        raise TraceError(f"{name}: no prompt fills a block of {block_tokens} tokens")
    return trace


class _Reader:
    """Takes lines, and knows what only the lines before can tell."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._parse: Callable[[str], _Line] | None = None
        self._requests: list[Request] = []
        self._keys: dict[int, bytes] = {}
        self._prompt_tokens = self._block_count = self._known_count = 0
        self._latest = (0, 0.0)

    def take(self, number: int, line: bytes) -> None:
        """Take the next line.

        Raises:
            _Mistake: it is malformed.
        """
        text = _decode(line).strip()
        if not text:
            return
        if self._parse is None and not text.startswith("{"):
            self._parse = _csv_parser(text)
            return
        if self._parse is None:
            self._parse = _parse_json
        self._enter(number, self._parse(text))

    def trace(self) -> Trace:
        """What was read so far."""
        return Trace(
            self._requests,
            self._prompt_tokens,
            self._block_count,
            len(self._keys),
            self._known_count,
        )

    def _enter(self, number: int, line: _Line) -> None:
        self._check_order(number, line.timestamp)
        full_count = self._full_count(line)
        ids, keys = line.hash_ids[:full_count], self._keys
        self._known_count += sum(1 for _ in takewhile(keys.__contains__, ids))
        # One object for all occurrences of a key: that is most of the memory of a long trace.
        found = tuple(keys.setdefault(name, name.to_bytes(KEY_BYTES)) for name in ids)
        self._block_count += full_count
        self._prompt_tokens += line.input_length
        self._requests.append(Request(line.timestamp / 1000, found))

    def _check_order(self, number: int, timestamp: float) -> None:
        before, latest = self._latest
        if timestamp < latest:
            raise _Mistake(f"timestamp: {timestamp:g} lies before the {latest:g} of line {before}")
        self._latest = (number, timestamp)

    def _full_count(self, line: _Line) -> int:
        """How many of the hash ids stand for full blocks; the block at the end need not be full, nor have an id."""
        ids, tokens, size = line.hash_ids, line.input_length, self._block_tokens
        full_count = tokens // size
        if not full_count <= len(ids) <= -(-tokens // size):
            raise _Mistake(
                f"hash_ids: {len(ids)} ids for {tokens} tokens, which are {full_count} full blocks of"
                f" {size} tokens; is --block-tokens right?"
            )
        if len(set(ids)) < len(ids):
            repeated = next(name for at, name in enumerate(ids) if name in ids[:at])
            raise _Mistake(f"hash_ids: {repeated} stands in it twice")
        return full_count


def _decode(line: bytes) -> str:
    if len(line) > MAX_LINE_BYTES:
        raise _Mistake(f"is longer than {MAX_LINE_BYTES >> 20} MiB; is that a trace?")
    try:
        return line.decode("utf-8-sig")  # what spreadsheets write begins with a mark
    except UnicodeDecodeError as error:
        raise _Mistake(
            f"byte {error.start + 1} is not text (UTF-8); if the file is compressed, unpack it"
        ) from None


def _parse_json(text: str) -> _Line:
    try:
        return _Line.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise _mistake(error) from None


def _csv_parser(header: str) -> Callable[[str], _Line]:
    wanted = tuple(_Line.model_fields)
    columns = [name.strip() for name in _fields(header)]
    if not set(wanted) <= set(columns):
        raise _Mistake(
            f"is neither a JSON object nor a CSV header with the columns {', '.join(wanted)}:"
            f" {shortened(header)}"
        )

    def parse(text: str) -> _Line:
        fields = _fields(text)
        if len(fields) != len(columns):
            raise _Mistake(f"has {len(fields)} fields, the header names {len(columns)}")
        row = dict(zip(columns, fields, strict=True))
        try:
            return _Line.model_validate(row | {"hash_ids": row["hash_ids"].split()})
        except ValidationError as error:
            raise _mistake(error) from None

    return parse


def _fields(text: str) -> list[str]:
    csv.field_size_limit(MAX_LINE_BYTES)  # the library's own limit is below a long prompt
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        raise _Mistake(f"is not CSV: {error}") from None


def _mistake(error: ValidationError) -> _Mistake:
    """The first thing that is wrong with a line."""
    found = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in found["loc"])
    what = found["msg"].replace(" at line 1 column", " at column")
    if found["type"] not in {"missing", "json_invalid"}:
        what = f"{what}, not {shortened(found['input'])}"
    return _Mistake(f"{where}: {what}" if where else what)
